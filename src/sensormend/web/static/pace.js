// Not more often than is useful.

/** Return `act` so that it runs once things are quiet for so many milliseconds; `.cancel()` forgets it. */
export function calm(act, milliseconds) {
  let timer = 0;
  const later = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), milliseconds);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

/** Return `act` so that it runs at most once for each picture the screen shows. */
export function perFrame(act) {
  let planned = 0;
  return () => {
    planned ||= requestAnimationFrame(() => {
      planned = 0;
      act();
    });
  };
}
