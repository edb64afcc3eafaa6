// Creates or uses a passkey, and submits the browser's response in a hidden field of the form.
"use strict";

const form = document.querySelector("form[data-passkey]");

async function credential() {
  const options = JSON.parse(form.dataset.options);
  if (form.dataset.passkey === "create") {
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
    return navigator.credentials.create({ publicKey });
  }
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
  return navigator.credentials.get({ publicKey });
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const failed = form.querySelector("[data-failed]");
  failed.hidden = true;
  try {
    form.querySelector("[data-once]").value = JSON.stringify(await credential());
  } catch {
    failed.hidden = false;
    return;
  }
  form.submit();
});
