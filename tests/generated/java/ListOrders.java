import com.example.MetadataFilter;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.OrdersApi;

/** Prints the id and the amount of each order whose metadata have the given cart. */
class ListOrders {
    public static void main(String[] arguments) throws Exception {
        var client = new ApiClient();
        client.updateBaseUri(System.getenv("TILL_URL"));
        client.setRequestInterceptor(
            request -> request.header("x-api-key", System.getenv("TILL_KEY")));
        var metadata = new MetadataFilter();
        metadata.put("cart", arguments[0]);
        var orders = new OrdersApi(client)
            .listOrders(null, null, null, null, null, null, null, null, metadata, null);
        for (var order : orders.getData().getItems()) {
            String amount = order.getAmount();
            System.out.println(order.getId() + " " + amount);
        }
    }
}
