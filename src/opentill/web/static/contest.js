// Names what a response to a dispute lacks before its confirmation opens. Without this script the
// server names it after the confirmation.
"use strict";

for (const form of document.querySelectorAll("form.contest")) {
  const missing = form.querySelector("#explanation-missing");
  if (!missing) continue; // the dispute has evidence already
  const { explanation } = form.elements;
  const isEmpty = () =>
    ![...form.querySelectorAll("input[type=text], input[type=date], input[type=file], textarea")]
      .some((field) => field.value.trim());
  form.addEventListener("input", () => {
    if (missing.hidden || isEmpty()) return;
    missing.hidden = true;
    explanation.removeAttribute("aria-invalid");
  });
  form.querySelector("[popovertarget=submit-response]").addEventListener("click", (event) => {
    if (!isEmpty()) return;
    event.preventDefault();
    missing.hidden = false;
    explanation.setAttribute("aria-invalid", "true");
    explanation.focus();
  });
}
