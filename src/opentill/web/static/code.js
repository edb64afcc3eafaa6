// Sends the form with the code of an authenticator as soon as its six digits are entered, and only
// once: a code works once. Without this script the button does that.
"use strict";

for (const field of document.querySelectorAll(".digits input[inputmode=numeric]")) {
  let isSent = false;
  field.form.addEventListener("submit", (event) => {
    if (isSent) event.preventDefault();
    isSent = true;
  });
  field.addEventListener("input", () => {
    if (/^\d{6}$/.test(field.value.replace(/\s/g, ""))) field.form.requestSubmit();
  });
  // A page that the back button shows again can be sent again.
  addEventListener("pageshow", () => { isSent = false; });
}
