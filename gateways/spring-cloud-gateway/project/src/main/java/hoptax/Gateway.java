package hoptax;

import io.netty.resolver.DefaultAddressResolverGroup;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.interfaces.RSAPublicKey;
import java.security.spec.X509EncodedKeySpec;
import java.time.Duration;
import java.util.Base64;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import javax.crypto.spec.SecretKeySpec;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.cloud.gateway.config.HttpClientCustomizer;
import org.springframework.cloud.gateway.filter.GatewayFilterChain;
import org.springframework.cloud.gateway.filter.GlobalFilter;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.cloud.gateway.filter.ratelimit.RateLimiter;
import org.springframework.context.annotation.Bean;
import org.springframework.core.Ordered;
import org.springframework.http.HttpStatus;
import org.springframework.security.oauth2.jose.jws.MacAlgorithm;
import org.springframework.security.oauth2.jwt.JwtException;
import org.springframework.security.oauth2.jwt.JwtValidators;
import org.springframework.security.oauth2.jwt.NimbusReactiveJwtDecoder;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;
import reactor.netty.http.HttpProtocol;

/**
 * Spring Cloud Gateway with custom filters. Each filter is created only if the configuration sets its properties,
 * so a bare route has none.
 */
@SpringBootApplication
public class Gateway {
    public static void main(String[] arguments) {
        SpringApplication.run(Gateway.class, arguments);
    }

    /**
     * A filter with a fixed order. An order annotation on its factory method would be ignored, and the filter would
     * run after the route's filters, which then fail because the response is already sent.
     */
    private record Early(int place, GlobalFilter filter) implements GlobalFilter, Ordered {
        @Override
        public Mono<Void> filter(ServerWebExchange exchange, GatewayFilterChain chain) {
            return filter.filter(exchange, chain);
        }

        @Override
        public int getOrder() {
            return HIGHEST_PRECEDENCE + place;
        }
    }

    private static Mono<Void> refuse(ServerWebExchange exchange, HttpStatus status) {
        exchange.getResponse().setStatusCode(status);
        return exchange.getResponse().setComplete();
    }

    private static Set<String> lines(Path file) throws IOException {
        return new HashSet<>(Files.readAllLines(file, StandardCharsets.UTF_8));
    }

    /**
     * Uses Java's name resolver: Netty's keeps a UDP socket open on all addresses. Uses HTTP/1.1: if the server accepts
     * HTTP/2, the client would also offer it.
     */
    @Bean
    HttpClientCustomizer upstream() {
        return client -> client.resolver(DefaultAddressResolverGroup.INSTANCE).protocol(HttpProtocol.HTTP11);
    }

    /** Accepts requests whose key is a line of a file. */
    @Bean
    @ConditionalOnProperty("hoptax.key-auth.header")
    GlobalFilter keyAuth(
            @Value("${hoptax.key-auth.header}") String header, @Value("${hoptax.key-auth.file}") Path file)
            throws IOException {
        Set<String> known = lines(file);
        return new Early(2, (exchange, chain) -> {
            String sent = exchange.getRequest().getHeaders().getFirst(header);
            return sent != null && known.contains(sent)
                    ? chain.filter(exchange)
                    : refuse(exchange, HttpStatus.UNAUTHORIZED);
        });
    }

    /** Accepts requests whose `name:password` is a line of a file. */
    @Bean
    @ConditionalOnProperty("hoptax.basic-auth.file")
    GlobalFilter basicAuth(@Value("${hoptax.basic-auth.file}") Path file) throws IOException {
        Set<String> known = lines(file);
        return new Early(2, (exchange, chain) -> {
            String sent = exchange.getRequest().getHeaders().getFirst("authorization");
            if (sent != null && sent.startsWith("Basic ") && known.contains(decoded(sent.substring(6)))) {
                return chain.filter(exchange);
            }
            exchange.getResponse().getHeaders().set("www-authenticate", "Basic realm=\"hoptax\"");
            return refuse(exchange, HttpStatus.UNAUTHORIZED);
        });
    }

    private static String decoded(String text) {
        try {
            return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
        } catch (IllegalArgumentException wrong) {
            return "";
        }
    }

    /** Accepts requests whose bearer token is signed by the issuer. */
    @Bean
    @ConditionalOnProperty("hoptax.jwt.issuer")
    GlobalFilter jwt(
            @Value("${hoptax.jwt.issuer}") String issuer,
            @Value("${hoptax.jwt.secret:}") String secret,
            @Value("${hoptax.jwt.public-key:}") String publicKey)
            throws Exception {
        NimbusReactiveJwtDecoder decoder = publicKey.isEmpty()
                ? NimbusReactiveJwtDecoder
                        .withSecretKey(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"))
                        .macAlgorithm(MacAlgorithm.HS256)
                        .build()
                : NimbusReactiveJwtDecoder.withPublicKey(rsa(Path.of(publicKey))).build();
        decoder.setJwtValidator(JwtValidators.createDefaultWithIssuer(issuer));
        return new Early(2, (exchange, chain) -> {
            String sent = exchange.getRequest().getHeaders().getFirst("authorization");
            if (sent == null || !sent.startsWith("Bearer ")) {
                return refuse(exchange, HttpStatus.UNAUTHORIZED);
            }
            // A header without a token is refused before the chain is subscribed to. A failure further down the chain
            // does not mean that the token is invalid.
            return Mono.defer(() -> decoder.decode(sent.substring(7)))
                    .map(token -> true)
                    .onErrorResume(JwtException.class, wrong -> Mono.just(false))
                    .flatMap(good -> good ? chain.filter(exchange) : refuse(exchange, HttpStatus.UNAUTHORIZED));
        });
    }

    private static RSAPublicKey rsa(Path pem) throws Exception {
        String text = Files.readString(pem).replaceAll("-----[A-Z ]+-----|\\s", "");
        X509EncodedKeySpec key = new X509EncodedKeySpec(Base64.getDecoder().decode(text));
        return (RSAPublicKey) KeyFactory.getInstance("RSA").generatePublic(key);
    }

    /** Accepts requests from one address. */
    @Bean
    @ConditionalOnProperty("hoptax.ip-allow")
    GlobalFilter ipAllow(@Value("${hoptax.ip-allow}") String allowed) {
        return new Early(0, (exchange, chain) -> {
            InetSocketAddress from = exchange.getRequest().getRemoteAddress();
            return from != null && allowed.equals(from.getAddress().getHostAddress())
                    ? chain.filter(exchange)
                    : refuse(exchange, HttpStatus.FORBIDDEN);
        });
    }

    /** Adds an identifier to each request without one, and to its response. */
    @Bean
    @ConditionalOnProperty("hoptax.request-id")
    GlobalFilter requestId(@Value("${hoptax.request-id}") String header) {
        return new Early(1, (exchange, chain) -> {
            String sent = exchange.getRequest().getHeaders().getFirst(header);
            String id = sent != null ? sent : UUID.randomUUID().toString();
            exchange.getResponse().beforeCommit(() -> {
                exchange.getResponse().getHeaders().set(header, id);
                return Mono.empty();
            });
            return chain.filter(exchange.mutate().request(request -> request.header(header, id)).build());
        });
    }

    /** All clients share one count. */
    @Bean
    @ConditionalOnProperty("hoptax.rate-limit")
    KeyResolver everybody() {
        return exchange -> Mono.just("everybody");
    }

    /** A limiter for RequestRateLimiter with buckets in memory; the built-in one needs Redis. */
    @Bean
    @ConditionalOnProperty("hoptax.rate-limit")
    RateLimiter<Object> inMemory(@Value("${hoptax.rate-limit}") double perSecond) {
        return new TokenBucket(perSecond);
    }

    /** A bucket that gains this many tokens per second, and holds as many. */
    static final class TokenBucket implements RateLimiter<Object> {
        private final double perSecond;
        private double tokens;
        private long filled = System.nanoTime();

        TokenBucket(double perSecond) {
            this.perSecond = perSecond;
            this.tokens = perSecond;
        }

        @Override
        public Mono<Response> isAllowed(String route, String key) {
            return Mono.fromSupplier(() -> new Response(take(), Map.of()));
        }

        private synchronized boolean take() {
            long now = System.nanoTime();
            tokens = Math.min(perSecond, tokens + perSecond * (now - filled) / Duration.ofSeconds(1).toNanos());
            filled = now;
            if (tokens < 1) {
                return false;
            }
            tokens -= 1;
            return true;
        }

        @Override
        public Map<String, Object> getConfig() {
            return Map.of();
        }

        @Override
        public Class<Object> getConfigClass() {
            return Object.class;
        }

        @Override
        public Object newConfig() {
            return new Object();
        }
    }
}
