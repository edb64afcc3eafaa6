// A shop that uses the unchanged easypay-node-sdk. The first argument names the operation, its
// input is JSON on standard input, and its output is JSON on standard output.
const Easypay = require("easypay-node-sdk");

const input = JSON.parse(require("fs").readFileSync(0, "utf8"));
const client = new Easypay(input);

async function main() {
  switch (process.argv[2]) {
    case "pay": {
      // The URL to which the shop redirects the customer's browser.
      const response = await fetch(client.pay(input.order));
      return { status: response.status, body: await response.text() };
    }
    case "order":
      return JSON.parse(await client.order(input.out_trade_no));
  }
}

main().then((output) => console.log(JSON.stringify(output)));
