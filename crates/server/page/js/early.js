// The theme before the first paint; settings.js keeps it up to date afterwards. A classic script, because modules wait.
(() => {
  let theme = "system";
  try {
    theme = JSON.parse(localStorage.getItem("zinc-settings") ?? "{}").theme ?? theme;
  } catch {
    // No storage: follow the system.
  }
  const dark = theme === "dark" || (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
