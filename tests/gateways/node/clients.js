// Runs other implementations for tests: reads one JSON object, and writes their results as another.
"use strict";

const { AlipaySdk } = require("alipay-sdk");
const { HDNodeWallet, keccak256, toUtf8Bytes } = require("ethers");
const WxPay = require("wechatpay-node-v3");

const CALLS = {
  // Orders a trade at the bank; the client verifies the signature of the response.
  async alipay({ options, order, notifyUrl, bill, notices, requests, shopKey }) {
    const client = new AlipaySdk(options);
    const shop = new AlipaySdk({ ...options, alipayPublicKey: shopKey });
    return {
      ordered: await client.exec(
        "alipay.trade.precreate", { notifyUrl, bizContent: order }, { validateSign: true },
      ),
      bill: await client.exec(
        "alipay.data.dataservice.bill.downloadurl.query", { bizContent: bill },
        { validateSign: true },
      ),
      notices: notices.map((notice) => client.checkNotifySignV2(notice)),
      requests: requests.map((request) => shop.checkNotifySign(request, true)),
      page: client.pageExecute("alipay.trade.page.pay", "GET", { bizContent: order }),
    };
  },
  async wechatPay({ options, certificates, requests, notices, resource }) {
    const client = new WxPay(options);
    WxPay.certificates = certificates;
    const { ciphertext, associated_data, nonce } = resource;
    return {
      serial: client.getSN(options.publicKey),
      requests: requests.map(({ method, nonce, timestamp, path, body }) =>
        client.getSignature(method, nonce, timestamp, path, body)),
      notices: await Promise.all(notices.map((notice) => client.verifySign(notice))),
      resource: client.decipher_gcm(ciphertext, associated_data, nonce, options.key),
    };
  },
  async chains({ key, numbers, texts }) {
    const parent = HDNodeWallet.fromExtendedKey(key);
    return {
      addresses: numbers.map((number) => parent.deriveChild(number).address),
      keys: numbers.map((number) => parent.deriveChild(number).extendedKey),
      digests: texts.map((text) => keccak256(toUtf8Bytes(text))),
    };
  },
};

async function main() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const call = CALLS[process.argv[2]];
  process.stdout.write(JSON.stringify(await call(JSON.parse(Buffer.concat(chunks)))));
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
