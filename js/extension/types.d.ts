/** What the extension's scripts say to each other, and what they use of the browser. */

/** How a page can be reached, and how it calls itself. */
interface Offer {
  transport: "postmessage" | "ws";
  url?: string;
  title: string;
  /** Whether the page was asked who it is, if that can be done. */
  known: boolean;
  id?: string;
  name?: string;
}

/** A message of the protocol; the extension reads little of it. */
interface Message {
  type?: unknown;
  action?: unknown;
  path?: unknown;
}

type FromPage =
  | { kind: "offer"; offer?: Offer }
  | { kind: "sleep"; asleep: boolean }
  | { kind: "relay"; channel?: string; message: Message };

type ToPage =
  | { kind: "greet" }
  | { kind: "open"; open: boolean }
  | { kind: "relay"; channel?: string; message: Message };

type FromPopup =
  | { kind: "allow"; origin: string }
  | { kind: "stop"; origin: string }
  | { kind: "stop all" }
  | { kind: "pair"; token: string; port: number };

interface ToPopup {
  connected: boolean;
  paired: boolean;
  port: number;
  pages: {
    tabId: number;
    origin: string;
    offer: Offer;
    allowed: boolean;
    asleep: boolean;
    readers: string[];
    acts: Act[];
  }[];
}

/** Something that an agent did in a page. */
interface Act {
  action: string;
  path: string;
  at: number;
}

declare namespace chrome {
  interface Event<Listener> {
    addListener(listener: Listener): void;
  }
  interface Tab {
    id?: number;
    discarded: boolean;
  }
  namespace runtime {
    interface Port<In = unknown, Out = unknown> {
      name: string;
      sender?: { origin?: string; tab?: Tab };
      onMessage: Event<(message: In) => void>;
      onDisconnect: Event<() => void>;
      postMessage(message: Out): void;
    }
    const id: string | undefined;
    const onConnect: Event<(port: Port) => void>;
    function connect(as: { name: string }): Port;
    function getPlatformInfo(): Promise<unknown>;
  }
  namespace tabs {
    const onReplaced: Event<(added: number, removed: number) => void>;
    function get(id: number): Promise<Tab>;
    function query(wanted: object): Promise<Tab[]>;
  }
  namespace storage.local {
    function get<Values extends object>(defaults: Values): Promise<Values>;
    function set(values: object): Promise<void>;
  }
  namespace action {
    function setBadgeText(badge: { tabId: number; text: string }): Promise<void>;
  }
}
