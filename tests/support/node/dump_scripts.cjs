// Writes the scripts that npm bullmq exports to a JSON file, as opaque texts:
//   node dump_scripts.cjs NODE_MODULES OUT
// OUT becomes [{name, keys, content}, ..]; modules are found by their file names alone.
const fs = require("node:fs");
const path = require("node:path");

const [modules, out] = process.argv.slice(2);
const root = path.join(path.resolve(modules), "bullmq");
const { version } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"));
const folder = path.join(root, "dist", "cjs", "scripts");
const scripts = [];
for (const file of fs.readdirSync(folder).filter((name) => /-\d+\.js$/.test(name)).sort()) {
  for (const found of Object.values(require(path.join(folder, file)))) {
    if (found && typeof found.content === "string") {
      scripts.push({ name: found.name, keys: found.keys, content: found.content });
    }
  }
}
fs.writeFileSync(out, JSON.stringify({ version, scripts }));
