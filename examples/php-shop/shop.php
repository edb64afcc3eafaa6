<?php
// A small shop in PHP: products, orders with numbers of its own, and each shipped once.
//
//   KEY=svc_live_… php -S 127.0.0.1:3000 shop.php
//
// What a real shop has to do as well is marked with "Here:". It needs PHP 8.1 or newer with
// PDO for SQLite, and no library. Settings: KEY, OPENTILL_URL, SHOP_URL, SHOP_DATA.

declare(strict_types=1);

const CURRENCY = 'USD';
const TOLERANCE_MS = 300_000;
const GOODS = [
    'TEA' => ['name' => 'Green tea, 100 g', 'price' => '9.99'],
    'POT' => ['name' => 'Teapot', 'price' => '34.50'],
    'CUP' => ['name' => 'Cup', 'price' => '7.00'],
];

/** What OpenTill refused, or what became of a request that got no response. */
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
    return env('SHOP_URL', 'http://127.0.0.1:3000'); // never what a request says
}

/**
 * Send a request, again after no response, 429, 502, 503 and 504: one key makes one effect of all
 * attempts.
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
        'ignore_errors' => true, // the body of an error says what was refused
        'follow_location' => 0, // a key goes to no other address
    ];
    $url = env('OPENTILL_URL', 'http://127.0.0.1:8080') . $path;
    for ($attempt = 1; ; $attempt++) {
        $text = @file_get_contents($url, false, stream_context_create(['http' => $options]));
        $head = $text === false ? [] : $http_response_header ?? [];
        $status = preg_match('#^HTTP/\S+ (\d{3})#', $head[0] ?? '', $found) ? (int) $found[1] : 0;
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

/** Run a statement; its rows, and how many it changed. */
function run(string $sql, mixed ...$values): PDOStatement
{
    $statement = database()->prepare($sql);
    $statement->execute($values);
    return $statement;
}

/** Read and write as if nobody else did; all of it happens, or nothing. */
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

/** Return a stored setting; what `$make` returns is stored if there is none. */
function setting(string $name, callable $make): string
{
    $stored = run('select value from settings where name = ?', $name)->fetchColumn();
    if ($stored !== false) {
        return $stored;
    }
    run('insert or ignore into settings values (?, ?)', $name, $make());
    return run('select value from settings where name = ?', $name)->fetchColumn();
}

/**
 * Products and the endpoint are made once, and stored. The keys are the same however often that is
 * begun, for when a response does not arrive; they are known for seven days.
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

/** Place the order of a cart, and return where the customer pays; twice is the same order. */
function placeOrder(string $cart, string $article): string
{
    secret(); // there is somewhere to send the event to
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
    $key = "cart-$cart"; // it is known for seven days: what comes later goes by the stored session
    if ($order['session'] !== null) {
        $session = api('GET', "/v1/checkouts/{$order['session']}");
        if ($order['paid_at'] !== null || isPaid($session, (int) $order['number'])) {
            return shopUrl() . "/thanks?session={$session['id']}";
        }
        if ($session['status'] === 'OPEN') {
            return $session['url'];
        }
        $key .= "-{$session['id']}"; // it ended unpaid: another one
    }
    $session = api('POST', '/v1/checkouts', [
        'productId' => productId($order['article']),
        'successUrl' => shopUrl() . '/thanks?session={CHECKOUT_SESSION_ID}',
        'cancelUrl' => shopUrl() . '/',
        'clientReference' => (string) $order['number'], // the customer sees it, your staff find it
        'metadata' => ['cart' => $cart], // comes back with the event
    ], $key);
    run('update orders set session = ? where number = ?', $session['id'], $order['number']);
    return $session['url'];
}

/** Note that an order is paid, and ship it: once, however often this comes, and from wherever. */
function takePayment(int $number, string $amount, string $currency): void
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
    if ($changed->rowCount() === 1) { // Here: put the parcel into a table of its own.
        error_log("shipping order $number: " . GOODS[$order['article']]['name']);
    }
}

/** Say whether the order of a session is paid: ask, do not believe the address. */
function thanks(string $session): ?string
{
    $number = run('select number from orders where session = ?', $session)->fetchColumn();
    if ($number === false) {
        return null;
    }
    return isPaid(api('GET', "/v1/checkouts/$session"), (int) $number)
        ? "<h1>Thank you: order $number is paid</h1>"
        : "<h1>Order $number is not paid yet</h1><p>Reload this page.</p>";
}

/** Whether the order of a session is paid: ask, and ship it if it is. */
function isPaid(array $session, int $number): bool
{
    $order = api('GET', "/v1/orders/{$session['orderId']}");
    $isPaid = in_array($order['status'], ['PAID', 'SETTLED'], true);
    if ($isPaid) {
        transaction(fn () => takePayment($number, $order['amount'], $order['currency']));
    }
    return $isPaid;
}

/** Whether the signature is of this body, by our secret, and not older than five minutes. */
function isGenuine(string $body): bool
{
    $timestamp = $_SERVER['HTTP_X_SVC_TIMESTAMP'] ?? '';
    if (!ctype_digit($timestamp)) {
        return false;
    }
    $expected = 'sha256=' . hash_hmac('sha256', "$timestamp.$body", secret());
    $isFresh = abs(microtime(true) * 1000 - (float) $timestamp) < TOLERANCE_MS;
    // For 24 hours after a rotation, the secrets before sign as well: with spaces between.
    $old = explode(' ', $_SERVER['HTTP_X_SVC_SIGNATURE_OLD'] ?? '');
    foreach ([$_SERVER['HTTP_X_SVC_SIGNATURE'] ?? '', ...$old] as $given) {
        if (hash_equals($expected, $given)) {
            return $isFresh;
        }
    }
    return false;
}

/** Handle a webhook once, and return the status to respond with. */
function takeEvent(string $body): int
{
    if (!isGenuine($body)) {
        return 400;
    }
    $event = json_decode($body, true, 64, JSON_THROW_ON_ERROR);
    transaction(function () use ($event) {
        $isNew = run('insert or ignore into events values (?)', $event['id'])->rowCount() === 1;
        if (!$isNew) {
            return; // it came before
        }
        error_log("event {$event['id']}: {$event['type']}");
        if ($event['type'] !== 'order.paid') {
            return;
        }
        ['metadata' => $metadata, 'amount' => $amount, 'currency' => $currency] = $event['data'];
        $number = run('select number from orders where cart = ?', field($metadata, 'cart'))->fetchColumn();
        if ($number !== false) { // else it is about a sale elsewhere
            takePayment((int) $number, $amount, $currency);
        }
    });
    return 204;
}

/** The page of products. Each has a cart of its own, so that a double click is one order. */
function catalogue(): string
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

/** The page of orders. Here: only for who works in the shop. */
function orders(): string
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

function page(int $status, ?string $text): void
{
    http_response_code($text === null ? 404 : $status);
    header('content-type: text/html; charset=utf-8');
    echo '<!doctype html><title>Tea House</title>', $text ?? '<h1>Not found</h1>';
}

/** The text of a field of the form or of the address, "" where it is absent or no text. */
function field(array $given, string $name): string
{
    return is_string($given[$name] ?? null) ? $given[$name] : '';
}

function handle(): void
{
    $path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
    $isCart = preg_match('/^[0-9a-f]{32}$/D', field($_POST, 'cart')) === 1;
    $isOrder = $isCart && isset(GOODS[field($_POST, 'article')]);
    match ("{$_SERVER['REQUEST_METHOD']} $path") {
        'GET /' => page(200, catalogue()),
        'GET /orders' => page(200, orders()),
        'GET /thanks' => page(200, thanks(field($_GET, 'session'))),
        'POST /buy' => $isOrder
            ? header('location: ' . placeOrder(field($_POST, 'cart'), field($_POST, 'article')), true, 303)
            : page(404, null),
        'POST /webhook' => http_response_code(takeEvent(file_get_contents('php://input'))),
        default => page(404, null),
    };
}

try {
    handle();
} catch (ApiError $error) {
    error_log("{$error->getMessage()} ({$error->requestId})");
    page(503, '<h1>Please try again</h1>');
}
