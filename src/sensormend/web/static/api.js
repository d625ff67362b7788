// The server's answers. Addresses are relative, so that the page also works below a path of a proxy.

const HASH_KEY = "sensormend-after-login";
const TIMEOUT = 60_000;

/** Where the server knows this browser by its login, which can be ended: read from each answer. */
export const access = { login: false };

/** Return the address of an API path with its parameters; those that are empty are left out. */
export function address(path, params = {}) {
  const url = new URL(`api/${path.replace(/^\/?(api\/)?/, "")}`, document.baseURI);
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

/** Fetch an API path and return its JSON; an Error with the server's one line (and `status`) where it refuses. */
export function get(path, params = {}, signal = undefined) {
  return request(address(path, params), { headers: { Accept: "application/json" } }, signal);
}

/** Send something to an API path, and return its JSON as `get` does. */
export function post(path, body, signal = undefined) {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  return request(address(path), { method: "POST", headers, body: JSON.stringify(body) }, signal);
}

async function request(url, options, signal) {
  const timeout = AbortSignal.timeout(TIMEOUT);
  const combined = signal ? AbortSignal.any([signal, timeout]) : timeout;
  let response;
  try {
    response = await fetch(url, { ...options, signal: combined });
  } catch (error) {
    throw noAnswer(error);
  }
  if (response.status === 401) {
    sessionStorage.setItem(HASH_KEY, location.hash);
    location.assign("login");
    return new Promise(() => {});
  }
  access.login = response.headers.get("X-Access") === "login";
  if (!response.ok) {
    const body = await response.json().catch(() => ({}));
    const line = typeof body.detail === "string" ? body.detail : `the server answered ${response.status}`;
    throw Object.assign(new Error(line), { status: response.status });
  }
  return response.json().catch((error) => { throw noAnswer(error); });
}

function noAnswer(error) {
  return error.name === "AbortError" ? error : Object.assign(new Error("the server does not answer"), { status: 0 });
}

/** Go back to where a login interrupted. */
export function resume() {
  const hash = sessionStorage.getItem(HASH_KEY);
  sessionStorage.removeItem(HASH_KEY);
  if (hash && !location.hash) history.replaceState(null, "", hash);
}
