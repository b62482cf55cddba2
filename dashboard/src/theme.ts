// Dark or light: as the system says, unless the viewer chose.
import { computed, effect, signal } from "@preact/signals";

export type Choice = "auto" | "light" | "dark";
const KEY = "tollgate-theme";

const system = matchMedia("(prefers-color-scheme: dark)");
const isSystemDark = signal(system.matches);
system.addEventListener("change", () => (isSystemDark.value = system.matches));

function stored(): Choice {
  try {
    const text = localStorage.getItem(KEY);
    return text === "light" || text === "dark" ? text : "auto";
  } catch {
    return "auto"; // A browser may forbid it.
  }
}

export const choice = signal<Choice>(stored());
export const theme = computed(() => (choice.value === "auto" ? (isSystemDark.value ? "dark" : "light") : choice.value));

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  try {
    localStorage.setItem(KEY, choice.value);
  } catch {
    // It then lasts as long as the page.
  }
});
