// Runs before the first paint, so that a chosen theme never flashes the other one. No module: modules wait.
(() => {
  try {
    const chosen = localStorage.getItem("streamtune-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // A browser that keeps nothing follows the system.
  }
})();
