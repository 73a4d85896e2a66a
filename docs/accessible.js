// What the theme's pages lack for readers of screens and for keyboards. The theme adds parts of a page later on.
const named = new Map();

// Two landmarks of one name cannot be told apart.
function number(landmark) {
  const label = document.getElementById(landmark.getAttribute("aria-labelledby"));
  const name = (label?.textContent ?? landmark.getAttribute("aria-label") ?? "Code").trim();
  const count = (named.get(name) ?? 0) + 1;
  named.set(name, count);
  landmark.dataset.numbered = "";
  if (count > 1 || !landmark.hasAttribute("aria-labelledby")) {
    landmark.setAttribute("aria-label", count > 1 ? `${name} ${count}` : name);
    landmark.removeAttribute("aria-labelledby");
  }
}

function improve() {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll("nav:not([data-numbered])").forEach(number);
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset .output, p:has(> img[src$='demo.svg'])")) {
    wide.tabIndex = 0;
  }
}

new MutationObserver(improve).observe(document.body, { childList: true, subtree: true });
improve();
