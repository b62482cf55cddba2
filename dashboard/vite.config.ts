// How the page is built: into `dist`, or where DASHBOARD_OUT says (the build script of crates/dashboard).
// Nothing is inlined: the content security policy forbids it.
import { defineConfig } from "vite";

const ADMIN = process.env.TOLLGATE_ADMIN ?? "http://127.0.0.1:6070";

export default defineConfig({
  base: "./",
  build: {
    outDir: process.env.DASHBOARD_OUT ?? "dist",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    reportCompressedSize: false,
  },
  // The server takes what changes something only from its own origin.
  server: { proxy: { "/v1": { target: ADMIN, changeOrigin: true, headers: { origin: ADMIN } } } },
});
