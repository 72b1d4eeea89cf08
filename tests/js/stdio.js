/** The mailbox on the standard streams. */
import { serveStdio } from "../../js/node.js";
import { mailbox } from "./mailbox.js";

await serveStdio(mailbox().app);
process.exit(0);
