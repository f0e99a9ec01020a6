// Not a module, so that it runs before the page is first drawn. The choice is this browser's, and may not be kept.
(() => {
  /** @param {string | null} theme */
  const show = (theme) => {
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  const kept = () => {
    try {
      return localStorage.getItem('theme');
    } catch {
      return null;
    }
  };
  show(kept());
  addEventListener('DOMContentLoaded', () => {
    const choice = document.getElementById('theme');
    if (!(choice instanceof HTMLSelectElement)) return;
    choice.value = document.documentElement.dataset.theme ?? 'system';
    choice.addEventListener('change', () => {
      show(choice.value);
      try {
        localStorage.setItem('theme', choice.value);
      } catch {}
    });
  });
})();
