//! YARP and Ocelot, in applications of the project.

use super::{Case, cases, list, over_http2, pack, words};
use hoptax_plan::Profile;

const APPLICATIONS: [(&str, &str); 2] = [("ocelot", "Ocelot.csproj"), ("yarp", "Yarp.csproj")];

/// Sources for Ocelot 25: the public properties of `FileConfiguration`, of `FileRoute` and of their classes,
/// below `src/Configuration/File`. A route requires both path templates, a method and a destination.
#[test]
fn ocelot_reads_its_routes() {
    for case in cases("ocelot") {
        let file = case.json("ocelot.json");
        case.keys(&file, &["Routes", "GlobalConfiguration"], &[]);
        assert_eq!(list(&file["Routes"]).len(), if case.has("routes") { 3 } else { 1 }, "{}", case.what);
        for route in list(&file["Routes"]) {
            case.keys(
                route,
                &["UpstreamPathTemplate", "DownstreamPathTemplate", "DownstreamHostAndPorts"],
                &words(
                    "UpstreamHttpMethod DownstreamScheme AuthenticationOptions RateLimitOptions \
                     SecurityOptions LoadBalancerOptions HttpHandlerOptions",
                ),
            );
            // Both templates of a route must have the same placeholders.
            for template in ["UpstreamPathTemplate", "DownstreamPathTemplate"] {
                let text = route[template].as_str().expect("text");
                assert!(text.starts_with('/') && text.ends_with("/{everything}"), "{}: {text}", case.what);
            }
            assert_eq!(list(&route["DownstreamHostAndPorts"]).len(), case.upstreams, "{}", case.what);
            for place in list(&route["DownstreamHostAndPorts"]) {
                case.keys(place, &["Host", "Port"], &[]);
            }
            assert_eq!(
                route["AuthenticationOptions"]["AuthenticationProviderKey"].as_str(),
                if case.has("key-auth") {
                    Some("key")
                } else if case.has("jwt-hs256") || case.has("jwt-rs256") {
                    Some("jwt")
                } else {
                    None
                },
                "{}",
                case.what
            );
        }
        settings_fit_the_program("ocelot", &case);
    }
}

/// Sources for YARP 2.3: the keys of its configuration provider and of its built-in transforms. Each route
/// requires `ClusterId` and `Match`. Each cluster requires `Destinations`, and each destination requires an
/// `Address`.
#[test]
fn yarp_reads_its_routes_and_clusters() {
    for case in cases("yarp") {
        let file = case.json("yarp.json");
        let proxy = &file["ReverseProxy"];
        case.keys(proxy, &["Routes", "Clusters"], &[]);
        let routes = proxy["Routes"].as_object().expect("routes");
        assert_eq!(routes.len(), if case.has("routes") { 3 } else { 1 }, "{}", case.what);
        for route in routes.values() {
            case.keys(
                route,
                &["ClusterId", "Match"],
                &["AuthorizationPolicy", "RateLimiterPolicy", "Transforms"],
            );
            case.keys(&route["Match"], &["Path"], &[]);
            let cluster = &proxy["Clusters"][route["ClusterId"].as_str().expect("a name")];
            case.keys(cluster, &["Destinations"], &["LoadBalancingPolicy", "HttpClient", "HttpRequest"]);
            let destinations = cluster["Destinations"].as_object().expect("destinations");
            assert_eq!(destinations.len(), case.upstreams, "{}", case.what);
            for destination in destinations.values() {
                case.keys(destination, &["Address"], &[]);
            }
            for transform in list(&route["Transforms"]) {
                let known = words(
                    "RequestHeaderOriginalHost PathRemovePrefix RequestHeader Set RequestHeaderRemove \
                     ResponseHeader ResponseHeaderRemove When RequestHeadersCopy",
                );
                case.keys(transform, &[], &known);
            }
        }
        settings_fit_the_program("yarp", &case);
    }
}

/// The program reads `hoptax.json` into a C# record. Both must have the same fields. The streams are in the
/// file only if the load uses HTTP/2.
fn settings_fit_the_program(name: &str, case: &Case) {
    let pack = pack(name);
    let program = pack.template("Program.cs").expect("the program");
    let record =
        program.split("record Settings(").nth(1).and_then(|rest| rest.split(')').next()).expect("a record");
    let mut wanted: Vec<String> = record
        .split(',')
        .filter_map(|parameter| parameter.split_whitespace().last())
        .map(str::to_ascii_lowercase)
        .filter(|field| case.http2 || field != "http2streams")
        .collect();
    let settings = case.json("hoptax.json");
    let mut given: Vec<String> =
        settings.as_object().expect("members").keys().map(|key| key.to_ascii_lowercase()).collect();
    wanted.sort();
    given.sort();
    assert_eq!(wanted, given, "{}", case.what);
}

/// Sources for ASP.NET Core 10: `ListenOptions.Protocols` and `Http2Limits` of Kestrel. By default a port has
/// both versions with TLS, and HTTP/1 without.
#[test]
fn they_speak_http2() {
    for (name, _) in APPLICATIONS {
        for case in over_http2(name) {
            let equalised = case.profile == Profile::Equalised;
            let streams = if equalised { 300 } else { 100 };
            assert_eq!(case.json("hoptax.json")["http2Streams"], streams, "{}", case.what);
            assert_eq!(case.reports("MaxStreamsPerConnection 300"), equalised, "{}", case.what);
            assert_eq!(case.reports("ListenOptions.Protocols Http2"), !case.has("tls"), "{}", case.what);
            settings_fit_the_program(name, &case);
        }
        let program = pack(name).template("Program.cs").expect("the program");
        assert!(program.contains("listener.Protocols = HttpProtocols.Http2;"), "{name}");
        assert!(program.contains("MaxStreamsPerConnection = settings.Http2Streams;"), "{name}");
    }
}

/// With `DOTNET_PROCESSOR_COUNT=1` alone, 1.2 CPUs were used.
#[test]
fn they_are_held_to_their_cpus() {
    for (name, _) in APPLICATIONS {
        assert!(pack(name).manifest().held_to_cpus, "{name}");
        for case in cases(name).iter().filter(|case| case.profile == Profile::Equalised) {
            assert!(case.reports("pinned to 2 CPU(s)"), "{}", case.what);
            assert_eq!(case.rendered.environment["DOTNET_PROCESSOR_COUNT"], "2", "{}", case.what);
        }
    }
}

/// `JsonWebKeySet.GetSigningKeys` leaves out symmetric keys, so `jwt-hs256` refused every token.
#[test]
fn they_know_symmetric_keys() {
    for (name, _) in APPLICATIONS {
        let program = pack(name).template("Program.cs").expect("the program");
        assert!(program.contains("ReadAllText(jwt.Jwks)).Keys,"), "{name}");
        assert!(!program.contains(").GetSigningKeys()"), "{name}");
    }
}

/// If nothing is logged, nobody learns why an application answers 500.
#[test]
fn they_log_errors_to_standard_error() {
    for (name, _) in APPLICATIONS {
        let program = pack(name).template("Program.cs").expect("the program");
        for part in ["SetMinimumLevel(LogLevel.Error)", "LogToStandardErrorThreshold = LogLevel.Trace"] {
            assert!(program.contains(part), "{name}: {part}");
        }
    }
}

/// The application, the images that build and run it, and the instructions must name the same release of
/// .NET. .NET 8 is no longer supported.
#[test]
fn they_use_one_supported_release_of_dotnet() {
    for (name, project) in APPLICATIONS {
        let text = |file: &str| pack(name).template(file).expect("a file").to_owned();
        assert!(text(project).contains("<TargetFramework>net10.0<"), "{name}");
        let images: Vec<_> = text("Dockerfile")
            .lines()
            .filter_map(|line| Some(line.split_once("/dotnet/")?.1.to_owned()))
            .collect();
        assert_eq!(images, ["sdk:10.0 AS build", "aspnet:10.0"], "{name}");
        assert!(!text("Program.cs").contains("new X509Certificate2("), "{name}: obsolete since .NET 9");
        let install = &pack(name).manifest().install;
        assert!(install["note"].contains(".NET 10"), "{name}");
        // Libraries of an older build would stay in the folder.
        let publish = install["dotnet"].find("dotnet publish").expect("it publishes");
        let remove = install["dotnet"].find("rm -rf ~/.local/share/hoptax/tools/").expect("it removes");
        assert!(remove < publish, "{name}");
    }
}

#[test]
fn their_versions_have_three_parts() {
    for (name, printed, version) in
        [("yarp", "YARP 2.3.0.0\n", "2.3.0"), ("ocelot", "Ocelot 25.0.0.0\n", "25.0.0")]
    {
        let pattern = regex_lite::Regex::new(&pack(name).manifest().version.pattern).expect("checked");
        assert_eq!(&pattern.captures(printed).expect("it matches")[1], version);
    }
}

/// Since 25.0, Ocelot answers 503 to clients without the header that `ClientIdHeader` names. `PeriodTimespan`
/// closes the gateway for a second after each excess.
#[test]
fn ocelot_limits_rates_without_a_header_of_its_own() {
    let mut limited = 0;
    for case in cases("ocelot") {
        let file = case.json("ocelot.json");
        let limit = &file["GlobalConfiguration"]["RateLimitOptions"];
        if case.has("rate-limit") {
            assert_eq!(limit["ClientIdHeader"], "Host", "{}", case.what);
            limited += 1;
        }
        assert!(!case.text("ocelot.json").contains("PeriodTimespan"), "{}", case.what);
    }
    assert!(limited > 0);
}
