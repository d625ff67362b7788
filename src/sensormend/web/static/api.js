// The server's answers. Addresses are relative, so that the page also works below a path of a proxy.

const PLACE = "sensormend-after-login";
const LONGEST = 60_000;

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
  return answered(address(path, params), { headers: { Accept: "application/json" } }, signal);
}

/** Send something to an API path, and return its JSON as `get` does. */
export function post(path, body, signal = undefined) {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  return answered(address(path), { method: "POST", headers, body: JSON.stringify(body) }, signal);
}

async function answered(url, options, signal) {
  const silence = AbortSignal.timeout(LONGEST);
  const given = signal ? AbortSignal.any([signal, silence]) : silence;
  let response;
  try {
    response = await fetch(url, { ...options, signal: given });
  } catch (error) {
    throw unanswered(error);
  }
  if (response.status === 401) {
    sessionStorage.setItem(PLACE, location.hash);
    location.assign("login");
    return new Promise(() => {});
  }
  access.login = response.headers.get("X-Access") === "login";
  if (!response.ok) {
    const said = await response.json().catch(() => ({}));
    const line = typeof said.detail === "string" ? said.detail : `the server answered ${response.status}`;
    throw Object.assign(new Error(line), { status: response.status });
  }
  return response.json().catch((error) => { throw unanswered(error); });
}

function unanswered(error) {
  return error.name === "AbortError" ? error : Object.assign(new Error("the server does not answer"), { status: 0 });
}

/** Go back to where a login interrupted. */
export function resume() {
  const place = sessionStorage.getItem(PLACE);
  sessionStorage.removeItem(PLACE);
  if (place && !location.hash) history.replaceState(null, "", place);
}
