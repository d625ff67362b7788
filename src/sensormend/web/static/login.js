// The sign-in page: keeps the address that was asked for, and leads on those who are signed in.

const PLACE = "sensormend-after-login";

if (location.hash) sessionStorage.setItem(PLACE, location.hash);

// A link in a mail arrives without the cookie, which is only for requests of this site; this one is.
fetch("./", { method: "HEAD", redirect: "manual" })
  .then((answer) => { if (answer.ok) location.replace("./"); })
  .catch(() => {});
