// Command buy is a shop that uses the client of openapi-generator. Each run is one stage of a
// purchase, and prints its results as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"

	till "example.com/opentill/till"
)

func main() {
	settings := till.NewConfiguration()
	settings.Servers = till.ServerConfigurations{{URL: os.Getenv("TILL_URL")}}
	keys := map[string]till.APIKey{"apiKey": {Key: os.Getenv("TILL_KEY")}}
	ctx := context.WithValue(context.Background(), till.ContextAPIKeys, keys)
	client := till.NewAPIClient(settings)
	var output map[string]any
	switch os.Args[1] {
	case "open":
		output = open(ctx, client)
	case "refund":
		output = refund(ctx, client, os.Args[2])
	case "read":
		output = readResults(ctx, client, os.Args[2])
	case "event":
		output = parseEvent(os.Args[2])
	}
	must(json.NewEncoder(os.Stdout).Encode(output))
}

func open(ctx context.Context, client *till.APIClient) map[string]any {
	product := till.NewProductBody("Tea", "9.99", "USD")
	product.SetDescription("Loose leaf")
	product.SetMetadata(map[string]any{"sku": "TEA"})
	created, _, err := client.ProductsAPI.CreateProduct(ctx).ProductBody(*product).Execute()
	must(err)
	body := till.NewSessionBody()
	body.SetProductId(created.Data.Id)
	body.SetSuccessUrl("https://shop.example.com/thanks")
	body.SetDisplayMerchantName("The tea shop")
	body.SetMetadata(map[string]any{"cart": "17 & 4"})
	opened, _, err := client.CheckoutsAPI.CreateCheckoutSession(ctx).SessionBody(*body).
		IdempotencyKey(created.Data.Id).Execute()
	must(err)
	session, _, err := client.CheckoutsAPI.GetCheckoutSession(ctx, opened.Data.Id).Execute()
	must(err)
	return map[string]any{
		"session": opened.Data.Id, "order": session.Data.OrderId, "expiresAt": opened.Data.ExpiresAt,
	}
}

func refund(ctx context.Context, client *till.APIClient, id string) map[string]any {
	order, _, err := client.OrdersAPI.GetOrder(ctx, id).Execute()
	must(err)
	listed, _, err := client.OrdersAPI.ListOrders(ctx).Status("PAID").
		StartDate(order.Data.CreatedAt).EndDate(order.Data.CreatedAt).Size(10).Execute()
	must(err)
	totals := []int64{}
	for _, cart := range []string{"17 & 4", "18"} {
		filtered, _, err := client.OrdersAPI.ListOrders(ctx).
			Metadata(map[string]string{"cart": cart}).Execute()
		must(err)
		totals = append(totals, filtered.Data.Pagination.Total)
	}
	body := till.NewRefundBody()
	body.SetAmount("2.00")
	body.SetReason("One was broken")
	created, _, err := client.RefundsAPI.CreateRefund(ctx, id).RefundBody(*body).Execute()
	must(err)
	return map[string]any{
		"status": order.Data.Status, "paidAt": order.Data.PaidAt.Get(),
		"method": order.Data.PaymentMethod.Get(), "settledAt": order.Data.SettledAt.Get(),
		"listed": []string{listed.Data.Items[0].Id}, "total": listed.Data.Pagination.Total,
		"carts": totals, "refund": created.Data.Id,
	}
}

func readResults(ctx context.Context, client *till.APIClient, id string) map[string]any {
	refund, _, err := client.RefundsAPI.GetRefund(ctx, id).Execute()
	must(err)
	transactions, _, err := client.BalanceAPI.ListBalanceTransactions(ctx).Execute()
	must(err)
	types := []string{}
	for _, row := range transactions.Data.Items {
		types = append(types, row.Type)
	}
	csv, _, err := client.OrdersAPI.ExportOrders(ctx).Execute()
	must(err)
	_, _, err = client.OrdersAPI.GetOrder(ctx, "order_unknown").Execute()
	var refused *till.GenericOpenAPIError
	if !errors.As(err, &refused) {
		log.Fatalf("no refusal: %v", err)
	}
	failure := refused.Model().(till.Failure)
	return map[string]any{
		"status": refund.Data.Status, "amount": refund.Data.Amount,
		"succeededAt": refund.Data.SucceededAt.Get(),
		"types":       types, "csv": csv, "unknown": failure.Code,
	}
}

func parseEvent(body string) map[string]any {
	var event till.OrderPaidEvent
	must(json.Unmarshal([]byte(body), &event))
	return map[string]any{
		"event": event.Id, "createdAt": event.CreatedAt, "order": event.Data.OrderId,
		"amount": event.Data.Amount, "paidAt": event.Data.PaidAt,
	}
}

func must(err error) {
	var refused *till.GenericOpenAPIError
	if errors.As(err, &refused) {
		log.Fatalf("%v: %s", err, refused.Body())
	}
	if err != nil {
		log.Fatal(err)
	}
}
