// How the page is built: into `dist`, or where DASHBOARD_OUT says (the build script of crates/dashboard).
// Nothing is inlined: the content security policy forbids it.
import { defineConfig } from "vite";

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
  server: { proxy: { "/v1": "http://127.0.0.1:6070" } },
});
