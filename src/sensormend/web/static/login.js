// The sign-in page: keeps the address that was asked for, and leads on those who are signed in.

const HASH_KEY = "sensormend-after-login"; // As in api.js, which is served to those who are signed in only.

if (location.hash) sessionStorage.setItem(HASH_KEY, location.hash);

// A link in a mail arrives without the cookie, which is only for requests of this site; this one is.
fetch("./", { method: "HEAD", redirect: "manual" })
  .then((answer) => { if (answer.ok) location.replace("./"); })
  .catch(() => {});
