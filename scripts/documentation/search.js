// Print the first result of the site's search for each query: node search.js <site> <query>...
// It runs the site's own worker, with its index, as a browser does.
const fs = require("fs"), path = require("path"), vm = require("vm");

const [site, ...queries] = process.argv.slice(2);
const folder = path.join(site, "assets/javascripts/workers");
const script = fs.readdirSync(folder).find((name) => /^search\..*\.js$/.test(name));
const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json")));

// the kinds of messages that the worker takes and sends
const SETUP = 0, QUERY = 2, RESULT = 3;
let receive;
const sent = [];
const scope = { console, performance, setTimeout, clearTimeout, URL, importScripts() {} };
scope.self = scope.window = scope;
scope.location = { href: `file://${site}/` };
scope.addEventListener = (kind, handler) => { receive = handler; };
scope.postMessage = (message) => sent.push(message);
vm.createContext(scope);
vm.runInContext(fs.readFileSync(path.join(folder, script), "utf8"), scope);

(async () => {
  const send = async (type, data) => {
    await receive({ data: { type, data } });
    await new Promise((resolve) => setTimeout(resolve, 20));
  };
  await send(SETUP, { config: index.config, docs: index.docs, options: {} });
  for (const query of queries) {
    sent.length = 0;
    await send(QUERY, query);
    const groups = sent.find((message) => message.type === RESULT).data.items;
    console.log(groups.length ? groups[0][0].location : "nothing");
  }
})();
