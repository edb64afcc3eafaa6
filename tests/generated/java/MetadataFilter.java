package com.example;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.stream.Collectors;

/** Keys and values of metadata, which the generated client writes as {@code metadata[key]=value}. */
public class MetadataFilter extends LinkedHashMap<String, String> {
    public String toUrlQueryString(String name) {
        return entrySet().stream()
            .map(entry -> encode(name + "[" + entry.getKey() + "]") + "=" + encode(entry.getValue()))
            .collect(Collectors.joining("&"));
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }
}
