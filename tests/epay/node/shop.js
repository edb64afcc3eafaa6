// A shop that uses easypay-node-sdk as it is: what to do is the first argument, how stands on
// standard input, and the answer is JSON on standard output.
const Easypay = require("easypay-node-sdk");

const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const client = new Easypay(given);

async function main() {
  switch (process.argv[2]) {
    case "pay": {
      // The address that the shop sends the customer's browser to.
      const answer = await fetch(client.pay(given.order));
      return { status: answer.status, body: await answer.text() };
    }
    case "order":
      return JSON.parse(await client.order(given.out_trade_no));
  }
}

main().then((answer) => console.log(JSON.stringify(answer)));
