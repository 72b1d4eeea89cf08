/** A hook for React, and for whatever has its hooks under the same names. */
/**
 * Show a part of a component's state at a path of an app, while the component is mounted.
 *
 *     const useSlop = hook(React);
 *     useSlop(app, "cart", () => ({ type: "view", props: { count: cart.length } }));
 *
 * What the function says is looked at after each render.
 * @param {{useEffect: Function, useRef: Function}} React
 * @returns {(app: import("./sightline.js").App, path: string, describe: () => any) => void}
 */
export declare const hook: ({ useEffect, useRef }: {
    useEffect: Function;
    useRef: Function;
}) => (app: import("./sightline.js").App, path: string, describe: () => any) => void;
