// The smallest application around YARP. hoptax writes its settings to `hoptax.json`, next to `yarp.json`.

using System.Net;
using System.Security.Claims;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using System.Text.Encodings.Web;
using System.Text.Json;
using Microsoft.AspNetCore.Authentication;
using Microsoft.AspNetCore.Authentication.JwtBearer;
using Microsoft.AspNetCore.ResponseCompression;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.AspNetCore.Server.Kestrel.Https;
using Microsoft.Extensions.Options;
using Microsoft.IdentityModel.Tokens;
using System.Threading.RateLimiting;

if (args is ["--version"])
{
    Console.WriteLine($"YARP {typeof(Yarp.ReverseProxy.Forwarder.IHttpForwarder).Assembly.GetName().Version}");
    return;
}

var directory = args[0];
var settings = Settings.Read(Path.Combine(directory, "hoptax.json"));
var builder = WebApplication.CreateBuilder(new WebApplicationOptions { ContentRootPath = directory });
Measured.Listen(builder, settings);
Measured.Around(builder, settings);
Measured.Authenticate(builder.Services, settings);
builder.Services.AddAuthorization(options =>
{
    if (settings.KeyAuth is not null || settings.Jwt is not null)
    {
        var scheme = settings.KeyAuth is not null ? "key" : "jwt";
        options.AddPolicy("consumers", policy => policy.AddAuthenticationSchemes(scheme).RequireAuthenticatedUser());
    }
});
if (settings.RateLimit is { } limit)
{
    builder.Services.AddRateLimiter(options =>
    {
        options.RejectionStatusCode = StatusCodes.Status429TooManyRequests;
        options.AddPolicy("limit", context => RateLimitPartition.GetFixedWindowLimiter(
            context.Connection.RemoteIpAddress,
            _ => new FixedWindowRateLimiterOptions { PermitLimit = limit, Window = TimeSpan.FromSeconds(1), QueueLimit = 0 }));
    });
}
var proxy = builder.Services.AddReverseProxy().LoadFromConfig(
    new ConfigurationBuilder().AddJsonFile(Path.Combine(directory, "yarp.json")).Build().GetSection("ReverseProxy"));
proxy.ConfigureHttpClient((_, client) =>
{
    // Zero means YARP's default.
    if (settings.IdleSeconds > 0)
    {
        client.PooledConnectionIdleTimeout = TimeSpan.FromSeconds(settings.IdleSeconds);
        client.PooledConnectionLifetime = Timeout.InfiniteTimeSpan;
    }
    if (settings.UpstreamAuthority is { } authority)
    {
        var trusted = X509Certificate2.CreateFromPem(File.ReadAllText(authority));
        client.SslOptions.TargetHost = settings.UpstreamName;
        client.SslOptions.RemoteCertificateValidationCallback = (_, certificate, _, errors) =>
            certificate is X509Certificate2 shown
            && !errors.HasFlag(System.Net.Security.SslPolicyErrors.RemoteCertificateNameMismatch)
            && Measured.SignedBy(shown, trusted);
    }
    if (settings is { UpstreamCertificate: { } shownToUpstream, UpstreamKey: { } key })
    {
        client.SslOptions.ClientCertificates = new X509CertificateCollection { X509Certificate2.CreateFromPemFile(shownToUpstream, key) };
    }
});
var app = builder.Build();
Measured.Use(app, settings);
if (settings.Allowed is { } networks)
{
    var allowed = networks.Select(text => IPNetwork.Parse(text)).ToArray();
    app.Use((context, next) =>
    {
        if (context.Connection.RemoteIpAddress is { } address && allowed.Any(network => network.Contains(address)))
        {
            return next(context);
        }
        context.Response.StatusCode = StatusCodes.Status403Forbidden;
        return Task.CompletedTask;
    });
}
app.UseAuthentication();
app.UseAuthorization();
if (settings.RateLimit is not null)
{
    app.UseRateLimiter();
}
app.MapReverseProxy();
await app.RunAsync();

// Settings from hoptax: ports, certificates, consumers. Null if a feature is off. Zero streams mean HTTP/1.
public sealed record Settings(
    int Port,
    int AdminPort,
    string? AccessLog,
    TlsSettings? Tls,
    KeySettings? KeyAuth,
    JwtSettings? Jwt,
    CorsSettings? Cors,
    GzipSettings? Gzip,
    string? RequestId,
    int Http2Streams,
    int? RateLimit,
    string[]? Allowed,
    int IdleSeconds,
    string? UpstreamAuthority,
    string? UpstreamName,
    string? UpstreamCertificate,
    string? UpstreamKey)
{
    public static Settings Read(string file) =>
        JsonSerializer.Deserialize<Settings>(File.ReadAllText(file), new JsonSerializerOptions { PropertyNameCaseInsensitive = true })
        ?? throw new InvalidDataException($"{file} holds no settings");
}

public sealed record TlsSettings(string Certificate, string Key, string? Authority);
public sealed record KeySettings(string Header, Dictionary<string, string> Consumers);
public sealed record JwtSettings(string Algorithm, string Issuer, string Jwks);
public sealed record CorsSettings(string Origin, string[] Methods, string[] Headers, int MaxAge);
public sealed record GzipSettings(string[] Types);

// Accepts requests with a known key in a header.
public sealed class KeyHandler(IOptionsMonitor<AuthenticationSchemeOptions> options, ILoggerFactory logger, UrlEncoder encoder, Settings settings)
    : AuthenticationHandler<AuthenticationSchemeOptions>(options, logger, encoder)
{
    protected override Task<AuthenticateResult> HandleAuthenticateAsync()
    {
        var keys = settings.KeyAuth!;
        if (!Request.Headers.TryGetValue(keys.Header, out var key) || !keys.Consumers.TryGetValue(key.ToString(), out var consumer))
        {
            return Task.FromResult(AuthenticateResult.NoResult());
        }
        var identity = new ClaimsIdentity([new Claim(ClaimTypes.Name, consumer)], Scheme.Name);
        return Task.FromResult(AuthenticateResult.Success(new AuthenticationTicket(new ClaimsPrincipal(identity), Scheme.Name)));
    }
}

public static class Measured
{
    // One listener for traffic, on HOPTAX_ADDRESS, and one for readiness, on 127.0.0.1.
    public static void Listen(WebApplicationBuilder builder, Settings settings) => builder.WebHost.ConfigureKestrel(kestrel =>
    {
        var address = IPAddress.Parse(Environment.GetEnvironmentVariable("HOPTAX_ADDRESS") ?? "127.0.0.1");
        kestrel.Limits.KeepAliveTimeout = TimeSpan.FromHours(1);
        if (settings.Http2Streams > 0)
        {
            kestrel.Limits.Http2.MaxStreamsPerConnection = settings.Http2Streams;
        }
        kestrel.Listen(IPAddress.Loopback, settings.AdminPort);
        kestrel.Listen(address, settings.Port, listener =>
        {
            if (settings.Tls is not { } tls)
            {
                // With TLS, the client chooses the version. Without TLS, Kestrel has one version on a port.
                if (settings.Http2Streams > 0)
                {
                    listener.Protocols = HttpProtocols.Http2;
                }
                return;
            }
            var pem = X509Certificate2.CreateFromPemFile(tls.Certificate, tls.Key);
            listener.UseHttps(https =>
            {
                https.ServerCertificate = X509CertificateLoader.LoadPkcs12(pem.Export(X509ContentType.Pfx), null);
                https.SslProtocols = System.Security.Authentication.SslProtocols.Tls13;
                if (tls.Authority is { } authority)
                {
                    var trusted = X509Certificate2.CreateFromPem(File.ReadAllText(authority));
                    https.ClientCertificateMode = ClientCertificateMode.RequireCertificate;
                    https.ClientCertificateValidation = (certificate, _, _) => SignedBy(certificate, trusted);
                }
            });
        });
    });

    public static bool SignedBy(X509Certificate2 certificate, X509Certificate2 authority)
    {
        using var chain = new X509Chain();
        chain.ChainPolicy.TrustMode = X509ChainTrustMode.CustomRootTrust;
        chain.ChainPolicy.CustomTrustStore.Add(authority);
        chain.ChainPolicy.RevocationMode = X509RevocationMode.NoCheck;
        return chain.Build(certificate);
    }

    public static void Authenticate(IServiceCollection services, Settings settings)
    {
        services.AddSingleton(settings);
        var schemes = services.AddAuthentication();
        if (settings.KeyAuth is not null)
        {
            schemes.AddScheme<AuthenticationSchemeOptions, KeyHandler>("key", _ => { });
        }
        if (settings.Jwt is { } jwt)
        {
            schemes.AddJwtBearer("jwt", options =>
            {
                options.MapInboundClaims = false;
                options.TokenValidationParameters = new TokenValidationParameters
                {
                    ValidAlgorithms = [jwt.Algorithm],
                    ValidIssuer = jwt.Issuer,
                    ValidateAudience = false,
                    // GetSigningKeys() leaves out symmetric keys.
                    IssuerSigningKeys = new JsonWebKeySet(File.ReadAllText(jwt.Jwks)).Keys,
                };
            });
        }
    }

    // Features that ASP.NET provides around the proxy, used as in its documentation.
    public static void Around(WebApplicationBuilder builder, Settings settings)
    {
        // Only errors, to standard error: a line for each request would be part of the measured cost.
        builder.Logging.ClearProviders();
        builder.Logging.SetMinimumLevel(LogLevel.Error);
        builder.Logging.AddConsole(console => console.LogToStandardErrorThreshold = LogLevel.Trace);
        if (settings.Cors is { } cors)
        {
            builder.Services.AddCors(options => options.AddDefaultPolicy(policy => policy
                .WithOrigins(cors.Origin).WithMethods(cors.Methods).WithHeaders(cors.Headers)
                .SetPreflightMaxAge(TimeSpan.FromSeconds(cors.MaxAge))));
        }
        if (settings.Gzip is { } gzip)
        {
            builder.Services.AddResponseCompression(options =>
            {
                options.EnableForHttps = true;
                options.MimeTypes = gzip.Types;
                options.Providers.Add<GzipCompressionProvider>();
            });
            builder.Services.Configure<GzipCompressionProviderOptions>(options => options.Level = System.IO.Compression.CompressionLevel.Optimal);
        }
    }

    public static void Use(WebApplication app, Settings settings)
    {
        app.MapWhen(context => context.Connection.LocalPort == settings.AdminPort,
            admin => admin.Run(context => context.Response.WriteAsync("ready")));
        if (settings.AccessLog is { } file)
        {
            var log = TextWriter.Synchronized(new StreamWriter(file, append: true) { AutoFlush = true });
            app.Use(async (context, next) =>
            {
                await next(context);
                log.WriteLine($"{context.Connection.RemoteIpAddress} {context.Request.Method} {context.Request.Path} {context.Response.StatusCode}");
            });
        }
        if (settings.RequestId is { } header)
        {
            app.Use((context, next) =>
            {
                var id = Guid.NewGuid().ToString();
                context.Request.Headers[header] = id;
                context.Response.OnStarting(() =>
                {
                    context.Response.Headers[header] = id;
                    return Task.CompletedTask;
                });
                return next(context);
            });
        }
        if (settings.Cors is not null)
        {
            app.UseCors();
        }
        if (settings.Gzip is not null)
        {
            app.UseResponseCompression();
        }
    }
}
