// Listens to the server: calls `tell` with whether it is connected, and the version of the city.

export function listen(tell) {
  let version = "";
  const source = new EventSource("/live");
  const changed = (event) => tell({ connected: true, version: (version = event.data) });
  source.addEventListener("state", changed);
  source.addEventListener("change", changed);
  source.onerror = () => tell({ connected: false, version });
  return source;
}
