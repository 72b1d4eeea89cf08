/** The types of `sightline.js`. */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export interface Node {
  id: string;
  type: string;
  properties?: { [name: string]: any };
  meta?: { [name: string]: any };
  affordances?: any[];
  content_ref?: any;
  children?: Node[] | null;
}

export type Items = Iterable<Descriptor> | { [id: string]: Descriptor } | null;

export interface Descriptor {
  id?: string | number;
  type?: string;
  props?: object;
  properties?: object;
  summary?: string;
  items?: Items;
  children?: Items;
  window?: { items: Descriptor[]; total?: number; offset?: number };
  meta?: object;
  actions?: { [name: string]: Handler | (ActionOptions & { handler: Handler }) };
  content_ref?: object;
  contentRef?: object;
}

export interface Call {
  path: string;
  action: string;
  params: { [name: string]: any };
  node: Node;
  holes: { [name: string]: string };
  task: (work: Work) => void;
}

export type Handler = (given: any, call: Call) => any;

export interface ActionOptions {
  params?: object;
  label?: string;
  description?: string;
  dangerous?: boolean;
  idempotent?: boolean;
  estimate?: "instant" | "fast" | "slow" | "async";
  returns?: object;
  when?: (properties: any) => any;
  guard?: Handler;
  authorize?: Handler;
  refreshes?: string[];
}

export interface Task {
  id: string;
  signal: AbortSignal;
  report: (progress?: number | null, message?: string) => void;
}

export type Work = (task: Task) => any;
export type Observable = { subscribe: (listener: (value: any) => void) => any };
export type Connection = { receive: (message: any) => void; close: () => void };

export interface AppOptions {
  props?: object;
  coalesce?: number;
  invokeTimeout?: number;
  taskLinger?: number;
  maxDepth?: number;
  maxNodes?: number;
}

export interface DialOptions {
  protocols?: string[];
  WebSocket?: any;
  wait?: number;
  longest?: number;
  onState?: (isOpen: boolean) => void;
}

export class ActionError extends Error {
  constructor(code: string, message: string);
  code: string;
}

export function legalId(text: string): string;

export class App {
  constructor(id: string, name?: string, options?: AppOptions);
  readonly info: { id: string; name: string; capabilities: string[]; epoch: string };
  readonly version: number;
  tree(): Node;
  node(
    path: string,
    source: (() => any) | Observable,
    map?: (value: any) => Descriptor | null | undefined,
  ): () => void;
  view(path: string, source: () => Descriptor, options?: { summary?: string | (() => string) }): () => void;
  focus(path: string): void;
  register(path: string, descriptor: Descriptor): () => void;
  unregister(path: string): void;
  action(path: string, name: string, handler: Handler, options?: ActionOptions): void;
  content(path: string, reader: (holes: any) => any, options?: { when?: (properties: any) => any }): void;
  children(path: string, resolve: (given: any) => any, options?: { windowed?: boolean }): void;
  refresh(path?: string): void;
  update(path: string, change: { props?: object; meta?: object }): void;
  authorize(hook: (call: Call) => any): void;
  emit(name: string, data?: Json): void;
  task(action: string, work: Work, params?: object): string;
  flush(): void;
  close(): void;
  connect(send: (text: string) => void, options?: { buffered?: () => number }): Connection;
  dial(url?: string, options?: DialOptions): () => void;
  post(options?: { window?: any }): () => void;
}
