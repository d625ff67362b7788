// Before anything is drawn: light or dark, as chosen here earlier, else as the system says.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try { return localStorage.getItem("sensormend-theme"); } catch { return null; }
  };
  const apply = () => {
    const theme = chosen() ?? (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    document.dispatchEvent(new CustomEvent("themechange", { detail: theme }));
  };
  system.addEventListener("change", apply);
  // Paper is light: pictures are drawn anew for it, before anything else that listens draws.
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.theme = "light";
    document.dispatchEvent(new CustomEvent("themechange", { detail: "light" }));
  });
  addEventListener("afterprint", apply);
  document.addEventListener("themetoggle", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      // Whoever chooses what the system says anyway follows the system again.
      if ((next === "dark") === system.matches) localStorage.removeItem("sensormend-theme");
      else localStorage.setItem("sensormend-theme", next);
      apply();
    } catch {
      document.documentElement.dataset.theme = next;
      document.dispatchEvent(new CustomEvent("themechange", { detail: next }));
    }
  });
  apply();
})();
