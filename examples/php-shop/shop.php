<?php
// A small shop in PHP, with its own order numbers. It ships each paid order once.
//
//   KEY=svc_live_… php -S 127.0.0.1:3000 shop.php
//
// Comments that begin with "Here:" say what a real shop must add. The program needs only PHP 8.1 or
// newer with PDO for SQLite. Settings: KEY, OPENTILL_URL, SHOP_URL, SHOP_DATA.

declare(strict_types=1);

const CURRENCY = 'USD';
const TOLERANCE_MS = 300_000;
const GOODS = [
    'TEA' => ['name' => 'Green tea, 100 g', 'price' => '9.99'],
    'POT' => ['name' => 'Teapot', 'price' => '34.50'],
    'CUP' => ['name' => 'Cup', 'price' => '7.00'],
];

/** OpenTill refused a request, or did not respond. */
final class ApiError extends RuntimeException
{
    public function __construct(string $message, public readonly string $requestId = '')
    {
        parent::__construct($message);
    }
}

function env(string $name, string $default = ''): string
{
    return getenv($name) ?: $default;
}

function shopUrl(): string
{
    return env('SHOP_URL', 'http://127.0.0.1:3000'); // not from a header of the request, which anybody can forge
}

/**
 * Send a request; retry after no response, 429, 502, 503 and 504. With a key, all attempts have one
 * effect.
 */
function api(string $method, string $path, ?array $body = null, string $key = ''): array
{
    $headers = ['x-api-key: ' . env('KEY'), 'content-type: application/json'];
    if ($key !== '') {
        $headers[] = "idempotency-key: $key";
    }
    $options = [
        'method' => $method,
        'header' => $headers,
        'content' => $body === null ? '' : json_encode($body, JSON_THROW_ON_ERROR),
        'timeout' => 30,
        'ignore_errors' => true, // read the body of an error, which has the reason
        'follow_location' => 0, // never send the API key to another address
    ];
    $url = env('OPENTILL_URL', 'http://127.0.0.1:8080') . $path;
    for ($attempt = 1; ; $attempt++) {
        $text = @file_get_contents($url, false, stream_context_create(['http' => $options]));
        $head = $text === false ? [] : $http_response_header ?? [];
        $status = preg_match('#^HTTP/\S+ (\d{3})#', $head[0] ?? '', $match) ? (int) $match[1] : 0;
        $response = json_decode($text ?: 'null', true);
        if ($status >= 200 && $status < 300 && is_array($response)) {
            return $response['data'] ?? [];
        }
        $isBusy = in_array($status, [0, 429, 502, 503, 504], true);
        if (!$isBusy || $attempt === 4) {
            $reason = $response['error']['reason'] ?? $response['message'] ?? "HTTP $status";
            $ids = preg_filter('#^x-request-id: #i', '', $head);
            throw new ApiError("$method $path: $reason", (string) current($ids ?: ['']));
        }
        usleep(250_000 * 2 ** $attempt + random_int(0, 250_000));
    }
}

function database(): PDO
{
    static $db = null;
    if ($db === null) {
        $db = new PDO('sqlite:' . env('SHOP_DATA', 'php-shop.sqlite'));
        $db->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);
        $db->setAttribute(PDO::ATTR_TIMEOUT, 30);
        $db->exec("
            create table if not exists settings (name text primary key, value text not null);
            create table if not exists orders (
              number integer primary key,
              cart text not null unique,
              article text not null,
              amount text not null,
              session text unique,
              paid_at integer,
              shipped_at integer
            );
            create table if not exists events (id text primary key);
        ");
    }
    return $db;
}

/** Run an SQL statement. */
function run(string $sql, mixed ...$values): PDOStatement
{
    $statement = database()->prepare($sql);
    $statement->execute($values);
    return $statement;
}

/** Run `$work` in a serializable transaction, which is rolled back if `$work` throws. */
function transaction(callable $work): mixed
{
    database()->exec('begin immediate');
    try {
        $result = $work();
        database()->exec('commit');
        return $result;
    } catch (Throwable $error) {
        database()->exec('rollback');
        throw $error;
    }
}

/** Return a stored setting. If there is none, call `$create` and store its result. */
function setting(string $name, callable $create): string
{
    $stored = run('select value from settings where name = ?', $name)->fetchColumn();
    if ($stored !== false) {
        return $stored;
    }
    run('insert or ignore into settings values (?, ?)', $name, $create());
    return run('select value from settings where name = ?', $name)->fetchColumn();
}

/**
 * Return the beginning of the idempotency keys for products and the endpoint. A repetition uses the
 * same keys, so a lost response creates nothing twice. The server knows a key for seven days, so ids
 * and the secret are stored.
 */
function shopId(): string
{
    return setting('shop', fn () => bin2hex(random_bytes(8)));
}

function productId(string $article): string
{
    ['name' => $name, 'price' => $price] = GOODS[$article];
    return setting("product $article $price", fn () => api('POST', '/v1/products', [
        'name' => $name,
        'price' => $price,
        'currency' => CURRENCY,
        'metadata' => ['article' => $article],
    ], shopId() . "-$article-$price")['id']);
}

function secret(): string
{
    return setting('secret', fn () => api('POST', '/v1/webhook-endpoints', [
        'url' => shopUrl() . '/webhook',
        'events' => ['order.paid'],
    ], shopId() . '-endpoint')['secret']);
}

/** Place the order of a cart and return where its customer pays. Idempotent. */
function placeOrder(string $cart, string $article): string
{
    secret(); // the endpoint must exist before the payment
    $order = transaction(function () use ($cart, $article) {
        $amount = GOODS[$article]['price'];
        run(
            'insert or ignore into orders (number, cart, article, amount)'
                . ' select coalesce(max(number), 1000) + 1, ?, ?, ? from orders',
            $cart,
            $article,
            $amount,
        );
        return run('select * from orders where cart = ?', $cart)->fetch(PDO::FETCH_ASSOC);
    });
    $key = "cart-$cart"; // after seven days, only the stored session prevents a second one
    if ($order['session'] !== null) {
        $session = api('GET', "/v1/checkouts/{$order['session']}");
        if ($order['paid_at'] !== null || checkPayment($session, (int) $order['number'])) {
            return shopUrl() . "/thanks?session={$session['id']}";
        }
        if ($session['status'] === 'OPEN') {
            return $session['url'];
        }
        $key .= "-{$session['id']}"; // the old session ended unpaid: create another one
    }
    $session = api('POST', '/v1/checkouts', [
        'productId' => productId($order['article']),
        'successUrl' => shopUrl() . '/thanks?session={CHECKOUT_SESSION_ID}',
        'cancelUrl' => shopUrl() . '/',
        'clientReference' => (string) $order['number'], // customers see it, and staff can search for it
        'metadata' => ['cart' => $cart], // the event contains it
    ], $key);
    run('update orders set session = ? where number = ?', $session['id'], $order['number']);
    return $session['url'];
}

/** Record that an order is paid, and ship the order. Idempotent. */
function recordPayment(int $number, string $amount, string $currency): void
{
    $order = run('select article, amount from orders where number = ?', $number)->fetch(PDO::FETCH_ASSOC);
    if ($order['amount'] !== $amount || $currency !== CURRENCY) {
        error_log("order $number: $amount $currency is not what it costs");
        return;
    }
    $changed = run(
        'update orders set paid_at = ?, shipped_at = ? where number = ? and shipped_at is null',
        time(),
        time(),
        $number,
    );
    if ($changed->rowCount() === 1) { // Here: insert a parcel into a table for the packers.
        error_log("shipping order $number: " . GOODS[$order['article']]['name']);
    }
}

/** Return the page for customers who come back. It shows the order's status at the API. */
function thanksPage(string $session): ?string
{
    $number = run('select number from orders where session = ?', $session)->fetchColumn();
    if ($number === false) {
        return null;
    }
    return checkPayment(api('GET', "/v1/checkouts/$session"), (int) $number)
        ? "<h1>Thank you: order $number is paid</h1>"
        : "<h1>Order $number is not paid yet</h1><p>Reload this page.</p>";
}

/** Return whether the API says that an order is paid. A paid order is shipped. */
function checkPayment(array $session, int $number): bool
{
    $order = api('GET', "/v1/orders/{$session['orderId']}");
    $isPaid = in_array($order['status'], ['PAID', 'SETTLED'], true);
    if ($isPaid) {
        transaction(fn () => recordPayment($number, $order['amount'], $order['currency']));
    }
    return $isPaid;
}

/** Whether the body was signed with our secret within the last five minutes. */
function isGenuine(string $body): bool
{
    $timestamp = $_SERVER['HTTP_X_SVC_TIMESTAMP'] ?? '';
    if (!ctype_digit($timestamp)) {
        return false;
    }
    $expected = 'sha256=' . hash_hmac('sha256', "$timestamp.$body", secret());
    $isFresh = abs(microtime(true) * 1000 - (float) $timestamp) < TOLERANCE_MS;
    // For 24 hours after a rotation, deliveries also have signatures made with the previous secrets.
    $oldSignatures = explode(' ', $_SERVER['HTTP_X_SVC_SIGNATURE_OLD'] ?? '');
    foreach ([$_SERVER['HTTP_X_SVC_SIGNATURE'] ?? '', ...$oldSignatures] as $signature) {
        if (hash_equals($expected, $signature)) {
            return $isFresh;
        }
    }
    return false;
}

/** Handle an event once; return the status of the response. */
function handleEvent(string $body): int
{
    if (!isGenuine($body)) {
        return 400;
    }
    $event = json_decode($body, true, 64, JSON_THROW_ON_ERROR);
    transaction(function () use ($event) {
        $isNew = run('insert or ignore into events values (?)', $event['id'])->rowCount() === 1;
        if (!$isNew) {
            return;
        }
        error_log("event {$event['id']}: {$event['type']}");
        if ($event['type'] !== 'order.paid') {
            return;
        }
        ['metadata' => $metadata, 'amount' => $amount, 'currency' => $currency] = $event['data'];
        $number = run('select number from orders where cart = ?', field($metadata, 'cart'))->fetchColumn();
        if ($number !== false) { // the merchant may also sell elsewhere
            recordPayment((int) $number, $amount, $currency);
        }
    });
    return 204;
}

/** Return the page of products. Each has its own cart, so a double click places one order. */
function cataloguePage(): string
{
    $rows = '';
    foreach (GOODS as $article => ['name' => $name, 'price' => $price]) {
        $cart = bin2hex(random_bytes(16));
        $rows .= '<li>' . htmlspecialchars($name) . ", $price " . CURRENCY
            . "<form method=\"post\" action=\"/buy\"><input type=\"hidden\" name=\"cart\" value=\"$cart\">"
            . "<button name=\"article\" value=\"$article\">Buy</button></form></li>";
    }
    return "<h1>Tea House</h1><ul>$rows</ul>";
}

/** Return the page of orders. Here: show it to the shop's staff only. */
function ordersPage(): string
{
    $rows = '';
    foreach (run('select * from orders') as $order) {
        $rows .= "<tr><td>{$order['number']}</td>"
            . '<td>' . htmlspecialchars(GOODS[$order['article']]['name']) . '</td>'
            . "<td>{$order['amount']} " . CURRENCY . '</td>'
            . '<td>' . ($order['paid_at'] ? 'paid' : 'open') . '</td>'
            . '<td>' . ($order['shipped_at'] ? 'shipped' : '') . '</td></tr>';
    }
    return "<h1>Orders</h1><table>$rows</table>";
}

function showPage(int $status, ?string $text): void
{
    http_response_code($text === null ? 404 : $status);
    header('content-type: text/html; charset=utf-8');
    echo '<!doctype html><title>Tea House</title>', $text ?? '<h1>Not found</h1>';
}

/** Return the text of a field, "" if the field is missing or is not text. */
function field(array $fields, string $name): string
{
    return is_string($fields[$name] ?? null) ? $fields[$name] : '';
}

function handle(): void
{
    $path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
    $isCart = preg_match('/^[0-9a-f]{32}$/D', field($_POST, 'cart')) === 1;
    $isOrder = $isCart && isset(GOODS[field($_POST, 'article')]);
    match ("{$_SERVER['REQUEST_METHOD']} $path") {
        'GET /' => showPage(200, cataloguePage()),
        'GET /orders' => showPage(200, ordersPage()),
        'GET /thanks' => showPage(200, thanksPage(field($_GET, 'session'))),
        'POST /buy' => $isOrder
            ? header('location: ' . placeOrder(field($_POST, 'cart'), field($_POST, 'article')), true, 303)
            : showPage(404, null),
        'POST /webhook' => http_response_code(handleEvent(file_get_contents('php://input'))),
        default => showPage(404, null),
    };
}

try {
    handle();
} catch (ApiError $error) {
    error_log("{$error->getMessage()} ({$error->requestId})");
    showPage(503, '<h1>Please try again</h1>');
}
