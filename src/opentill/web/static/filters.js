// Applies the filters of a list as soon as one of them changes, so that the form needs no button. A form
// with data-applies, whose choice decides what the page shows, does the same. The button stays for the
// keyboard: it appears when it gets the focus. Without this script it is shown.
"use strict";

const chosen = ".chip > label :is(select, input), form[data-applies] select";

for (const form of document.querySelectorAll("form:is(.filters[role=search], [data-applies])")) {
  let isTyped = false; // each arrow key changes a select: wait until the reader leaves it
  let isChanged = false;
  form.classList.add("applies-itself");
  form.addEventListener("pointerdown", () => { isTyped = false; });
  form.addEventListener("keydown", (event) => {
    if (event.target.matches(chosen) && event.key !== "Tab") isTyped = true;
    if (event.target.matches("select") && event.key === "Enter" && isChanged) form.requestSubmit();
  });
  form.addEventListener("change", (event) => {
    if (!event.target.matches(chosen)) return;
    isChanged = true;
    if (!isTyped) form.requestSubmit();
  });
  form.addEventListener("focusout", (event) => {
    if (isChanged && isTyped && event.target.matches(chosen)) form.requestSubmit();
  });
  // A search that was emptied by its cross shows all rows again.
  form.addEventListener("search", (event) => {
    if (event.target.value === "" && event.target.defaultValue !== "") form.requestSubmit();
  }, true);
}
