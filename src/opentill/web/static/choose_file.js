// Shows a button of ours instead of the browser's control for a file, and sends the form as soon as
// a file is chosen. Without this script readers choose a file and send the form themselves.
"use strict";

for (const input of document.querySelectorAll("input[type=file][data-choose]")) {
  const submit = input.form.querySelector("button[type=submit]");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button plain";
  button.textContent = input.dataset.choose;
  const description = input.getAttribute("aria-describedby");
  if (description) button.setAttribute("aria-describedby", description);
  for (const label of input.labels) label.className = "hidden"; // the button says what it is for
  button.id = input.id; // links of error messages lead to the button
  input.removeAttribute("id");
  input.hidden = true;
  submit.remove();
  input.before(button);
  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    if (!input.files.length) return;
    button.disabled = true;
    button.textContent = input.dataset.sending;
    input.form.requestSubmit();
  });
  // A page that the back button shows again has the state that it was left in.
  addEventListener("pageshow", () => {
    button.disabled = false;
    button.textContent = input.dataset.choose;
  });
}
