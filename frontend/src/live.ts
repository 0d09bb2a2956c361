import htmx from "htmx.org";
import { all } from "./dom";

/** What the socket says: something of this kind changed; what changed is fetched, so rights are checked there. */
interface Change {
  kind: string;
  id: string;
  /** The same in each group that is told of one change. */
  mark: string;
}

const POLL_MS = 30_000;
const WAIT_MAX_MS = 30_000;
const seen = new Map<string, string>();
let failures = 0;

function say(state: "on" | "lost"): void {
  for (const mark of all("[data-live-state]")) {
    mark.dataset["liveState"] = state;
    if (mark.hasAttribute("data-live-words")) mark.textContent = state === "on" ? "live" : "reconnecting, checked every 30 s";
  }
}

function refresh(element: Element): void {
  htmx.trigger(element, "live");
}

/** Elements name what they show: data-live="workspace:7f3a workspace:8c21", or "workspace:*" for a list. */
function apply(change: Change): void {
  const name = `${change.kind}:${change.id}`;
  if (seen.get(name) === change.mark) return;
  seen.set(name, change.mark);
  for (const element of all("[data-live]")) {
    const names = element.dataset["live"]?.split(/\s+/) ?? [];
    if (names.includes(name) || names.includes(`${change.kind}:*`)) refresh(element);
  }
}

function refreshAll(): void {
  if (!document.hidden) all("[data-live]").forEach(refresh);
}

function isChange(value: unknown): value is Change {
  return typeof value === "object" && value !== null && "kind" in value && "id" in value && "mark" in value;
}

function connect(topics: string): void {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(`${scheme}//${location.host}/ws/live/?topics=${encodeURIComponent(topics)}`);
  socket.addEventListener("open", () => {
    if (failures) refreshAll();
    failures = 0;
    say("on");
  });
  socket.addEventListener("message", (event: MessageEvent<string>) => {
    const message: unknown = JSON.parse(event.data);
    if (isChange(message)) apply(message);
  });
  socket.addEventListener("close", (event) => {
    say("lost");
    // 4401 and 4403: not signed in or not a member; asking again would not help.
    if (event.code === 4401 || event.code === 4403) return;
    const wait = Math.min(WAIT_MAX_MS, 500 * 2 ** failures++);
    window.setTimeout(() => connect(topics), wait * (0.5 + Math.random() / 2));
  });
}

export function startLive(): void {
  const topics = document.body.dataset["topics"];
  if (topics) connect(topics);
  // Heals what was lost: an event is a hint, the page's own question is the truth.
  window.setInterval(refreshAll, POLL_MS);
  document.addEventListener("visibilitychange", refreshAll);
}
