// Adds a button to fields for a password that shows what was typed. Without this script the
// password stays hidden.
"use strict";

for (const field of document.querySelectorAll("[data-show]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "show-password";
  button.textContent = field.dataset.show;
  button.setAttribute("aria-pressed", "false");
  button.setAttribute("aria-controls", field.id);
  button.addEventListener("click", () => {
    const isShown = field.type === "password";
    field.type = isShown ? "text" : "password";
    button.setAttribute("aria-pressed", String(isShown));
    button.textContent = isShown ? field.dataset.hide : field.dataset.show;
  });
  field.form.addEventListener("submit", () => { field.type = "password"; });
  const place = document.createElement("div");
  place.className = "with-show";
  const hasFocus = field.autofocus || document.activeElement === field;
  field.replaceWith(place);
  place.append(field, button);
  if (hasFocus) field.focus(); // it was lost with the old place
}
