def test_smoke(shop):
    o = shop.paid()
    print(o)
    r = shop.refund(o["id"])
    shop.hear_refund(r["id"])
    print(shop.read_order(o["id"]))
