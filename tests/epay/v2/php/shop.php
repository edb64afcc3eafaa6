<?php
// A shop in PHP that signs and verifies as shops with the convention's own SDK do: keys are one line of
// Base64, wrapped to PEM here, and OpenSSL signs. The input is JSON on standard input: the base address,
// keys, and the path with its fields, or a received message to verify. The output is JSON.
error_reporting(E_ALL);
$input = json_decode(stream_get_contents(STDIN), true, 16, JSON_THROW_ON_ERROR);

function content_of(array $fields): string
{
    ksort($fields);
    $parts = [];
    foreach ($fields as $name => $value) {
        if (is_array($value) || $value === null || trim($value) === '' || $name === 'sign' || $name === 'sign_type') {
            continue;
        }
        $parts[] = $name . '=' . $value;
    }
    return implode('&', $parts);
}

function pem(string $label, string $key): string
{
    return "-----BEGIN $label-----\n" . wordwrap($key, 64, "\n", true) . "\n-----END $label-----";
}

function sign(array $fields, string $privateKey): string
{
    if (!openssl_sign(content_of($fields), $signature, pem('PRIVATE KEY', $privateKey), OPENSSL_ALGO_SHA256)) {
        throw new RuntimeException('the private key cannot be used');
    }
    return base64_encode($signature);
}

function is_genuine(array $message, string $publicKey): bool
{
    if (empty($message['sign']) || abs(time() - (int) ($message['timestamp'] ?? 0)) > 300) {
        return false;
    }
    $signature = base64_decode($message['sign']);
    return openssl_verify(content_of($message), $signature, pem('PUBLIC KEY', $publicKey), OPENSSL_ALGO_SHA256) === 1;
}

if (isset($input['message'])) {
    echo json_encode(['genuine' => is_genuine($input['message'], $input['platform_public_key'])]);
    exit;
}
$fields = $input['fields'] + ['pid' => $input['pid'], 'timestamp' => (string) time()];
$fields['sign'] = sign($fields, $input['merchant_private_key']);
$fields['sign_type'] = 'RSA';
$address = $input['base'] . $input['path'];
if (!empty($input['link'])) {
    echo json_encode(['link' => $address . '?' . http_build_query($fields)]);
    exit;
}
$response = file_get_contents($address, false, stream_context_create(['http' => [
    'method' => 'POST',
    'header' => 'Content-Type: application/x-www-form-urlencoded',
    'content' => http_build_query($fields),
    'timeout' => 10,
]]));
$body = json_decode($response, true, 16, JSON_THROW_ON_ERROR);
echo json_encode(['response' => $body, 'genuine' => is_genuine($body, $input['platform_public_key'])]);
