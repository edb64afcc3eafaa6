// Shows the button that prints the page, in place of the sentence that says how to print it.
"use strict";

for (const button of document.querySelectorAll("button[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}
for (const hint of document.querySelectorAll("[data-print-hint]")) hint.hidden = true;
