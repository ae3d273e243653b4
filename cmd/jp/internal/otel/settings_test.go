package otel

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	ca, empty := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "empty.pem")
	write := func(name string, data []byte) {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	write(empty, nil)

	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318"
	for _, tt := range []struct {
		env  []string
		want string // what is set beyond the default; off = nothing is sent
		warn string
	}{
		{[]string{endpoint}, "http://c:4318/v1/traces", ""},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT= https://c/base/ "}, "https://c/base/v1/traces", ""},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t/x"}, "http://t/x", ""},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t"}, "http://t/", ""},
		{[]string{"OTEL_TRACES_EXPORTER=otlp"}, "http://localhost:4318/v1/traces", ""},
		{[]string{endpoint, "OTEL_SDK_DISABLED=True"}, "off", ""},
		{[]string{endpoint, "OTEL_SDK_DISABLED=false"}, "http://c:4318/v1/traces", ""},
		{[]string{endpoint, "OTEL_TRACES_EXPORTER=none"}, "off", ""},
		{[]string{endpoint, "OTEL_TRACES_EXPORTER=console"}, "off",
			`OTEL_TRACES_EXPORTER: "console" is not supported, only otlp and none; no traces are sent`},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=c:4318"}, "off",
			"OTEL_EXPORTER_OTLP_ENDPOINT: want http:// or https:// and a host; no traces are sent"},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://me:secret@c"}, "off",
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: holds a user or password, which belong in OTEL_EXPORTER_OTLP_HEADERS; no traces are sent"},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c/?key=secret"}, "off",
			"OTEL_EXPORTER_OTLP_ENDPOINT: has a query or a fragment; no traces are sent"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"}, "off",
			`OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" is not supported, only http/protobuf; no traces are sent`},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf"}, "http://c:4318/v1/traces", ""},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, "off",
			"OTEL_EXPORTER_OTLP_PROTOCOL: grpc is not supported: set it to http/protobuf, and the port to that of OTLP over HTTP, mostly 4318; no traces are sent"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=carrier/pigeon"}, "off",
			`OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "carrier/pigeon" is not supported, only http/protobuf; no traces are sent`},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_COMPRESSION=gzip"}, "http://c:4318/v1/traces gzip", ""},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_COMPRESSION=zstd"}, "http://c:4318/v1/traces",
			`OTEL_EXPORTER_OTLP_COMPRESSION: "zstd" is not supported, only gzip and none; traces are not compressed`},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT=250"}, "http://c:4318/v1/traces 250ms", ""},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT=10s"}, "http://c:4318/v1/traces",
			`OTEL_EXPORTER_OTLP_TIMEOUT: "10s" is not a number of milliseconds above 0; it is 10000`},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20secret, x-tenant = a=b "},
			"http://c:4318/v1/traces Authorization=Bearer secret X-Tenant=a=b", ""},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_HEADERS=a=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=b=2"}, "http://c:4318/v1/traces B=2", ""},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_HEADERS=a=1,secret,b=2"}, "http://c:4318/v1/traces A=1 B=2",
			"OTEL_EXPORTER_OTLP_HEADERS: entry 2 is not NAME=VALUE of a header; it is left out"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_HEADERS=a=secret%0d%0aX: y"}, "http://c:4318/v1/traces",
			"OTEL_EXPORTER_OTLP_HEADERS: entry 1 is not NAME=VALUE of a header; it is left out"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_HEADERS=a=secret%zz"}, "http://c:4318/v1/traces",
			"OTEL_EXPORTER_OTLP_HEADERS: entry 1 is not NAME=VALUE of a header; it is left out"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_HEADERS=content-type=secret"}, "http://c:4318/v1/traces",
			"OTEL_EXPORTER_OTLP_HEADERS: entry 1 is not NAME=VALUE of a header; it is left out"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_CERTIFICATE=" + ca}, "http://c:4318/v1/traces roots", ""},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_CERTIFICATE=" + empty}, "off",
			"OTEL_EXPORTER_OTLP_CERTIFICATE: " + empty + ": holds no certificate; no traces are sent"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere/ca"}, "off",
			"OTEL_EXPORTER_OTLP_CERTIFICATE: /nowhere/ca: no such file or directory; no traces are sent"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_CERTIFICATE=/dev/zero"}, "off",
			"OTEL_EXPORTER_OTLP_CERTIFICATE: /dev/zero: is not a regular file; no traces are sent"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=" + ca}, "off",
			"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY: one is not set; no traces are sent"},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/nowhere/cert", "OTEL_EXPORTER_OTLP_CLIENT_KEY=/nowhere/key"}, "off",
			"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: /nowhere/cert: no such file or directory; no traces are sent"},
		{[]string{endpoint, "OTEL_SERVICE_NAME=mine"}, "http://c:4318/v1/traces service.name=mine", ""},
		{[]string{endpoint, "OTEL_RESOURCE_ATTRIBUTES=team=a%2Cb,service.name=theirs"}, "http://c:4318/v1/traces service.name=theirs team=a,b", ""},
		{[]string{endpoint, "OTEL_RESOURCE_ATTRIBUTES=service.name=theirs", "OTEL_SERVICE_NAME=mine"}, "http://c:4318/v1/traces service.name=mine", ""},
		{[]string{endpoint, "OTEL_RESOURCE_ATTRIBUTES=team"}, "http://c:4318/v1/traces",
			"OTEL_RESOURCE_ATTRIBUTES: entry 1 is not KEY=VALUE; it is left out"},
		{[]string{endpoint, "OTEL_RESOURCE_ATTRIBUTES=service.name=many," + strings.Repeat("x=y,", 122)}, "http://c:4318/v1/traces service.name=many x=y",
			"OTEL_RESOURCE_ATTRIBUTES: has 123 entries; the first 122 count"},
		{[]string{endpoint, "OTEL_TRACES_SAMPLER=xray"}, "http://c:4318/v1/traces",
			`OTEL_TRACES_SAMPLER: "xray" is not supported, only always_on, always_off, traceidratio and these with parentbased_ before; it is parentbased_always_on`},
		{[]string{endpoint, "OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=half"}, "http://c:4318/v1/traces",
			`OTEL_TRACES_SAMPLER_ARG: "half" is not a number from 0 to 1; it is 1`},
		{[]string{endpoint, capture + "=true"}, "http://c:4318/v1/traces content", ""},
		{[]string{endpoint, capture + "=SPAN_AND_EVENT"}, "http://c:4318/v1/traces content", ""},
		{[]string{endpoint, capture + "=false"}, "http://c:4318/v1/traces", ""},
		{[]string{endpoint, capture + "=1"}, "http://c:4318/v1/traces", capture + `: "1" is neither true nor false; no content is recorded`},
	} {
		s, warnings := readSettings(environ(tt.env...), "1.0", 1)
		if got, warn := described(s), strings.Join(warnings, "\n"); got != tt.want || warn != tt.warn {
			t.Errorf("%q:\n%s, told %q, want\n%s, told %q", tt.env, got, warn, tt.want, tt.warn)
		}
	}
}

const capture = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

// described is what settings say beyond the default.
func described(s *settings) string {
	if s == nil {
		return "off"
	}
	words := []string{s.url}
	add := func(on bool, word string) {
		if on {
			words = append(words, word)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.headers)) {
		switch name {
		case "Content-Type", "User-Agent", "Content-Encoding":
		default:
			add(true, name+"="+s.headers.Get(name))
		}
	}
	for _, a := range s.resource {
		switch a.key {
		case "service.version", "process.pid", "telemetry.sdk.name", "telemetry.sdk.language", "telemetry.sdk.version":
		default:
			add(a != Str("service.name", "jp"), fmt.Sprintf("%s=%v", a.key, a.value))
		}
	}
	add(s.gzip, "gzip")
	add(s.timeout != 10*time.Second, s.timeout.String())
	add(s.client.Transport.(*http.Transport).TLSClientConfig.RootCAs != nil, "roots")
	add(s.content, "content")
	return strings.Join(words, " ")
}

// FuzzSettings: whatever the variables say, what is sent can be sent, and no warning tells a
// header's value.
func FuzzSettings(f *testing.F) {
	f.Add("http://c:4318", "a=1,b=%41", "http/protobuf", "gzip", "team=a%2Cb,=x", "parentbased_traceidratio", "0.5", "250")
	f.Add("https://[::1%25en0]:1/%zz", "a=\r\nX: y,\x00=b,Host=c,a=%0a", "grpc", "zstd", "a=%ff,\xff=b", "traceidratio", "NaN", "-1")
	f.Add("HTTP://h:99999/../x", ",,=,a", "", "", strings.Repeat("a=b,", 200), "xray", "0x1p-1", "1e3")
	f.Fuzz(func(t *testing.T, endpoint, headers, protocol, compression, resource, sampling, arg, timeout string) {
		vars := map[string]string{
			varTracesEndpoint: endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_COMPRESSION": compression,
			"OTEL_EXPORTER_OTLP_HEADERS": headers, "OTEL_EXPORTER_OTLP_TIMEOUT": timeout, "OTEL_RESOURCE_ATTRIBUTES": resource,
			"OTEL_SERVICE_NAME": resource, "OTEL_TRACES_SAMPLER": sampling, "OTEL_TRACES_SAMPLER_ARG": arg,
		}
		s, warnings := readSettings(func(name string) string { return vars[name] }, "1.0", 1)
		for _, w := range warnings {
			if strings.Contains(w, "HEADERS: ") && !headerWarning.MatchString(w) {
				t.Errorf("a warning tells of the headers %q: %s", headers, w)
			}
		}
		if s == nil {
			if len(warnings) == 0 {
				t.Errorf("%q: nothing is sent, and nobody is told", vars)
			}
			return
		}
		r, err := http.NewRequest(http.MethodPost, s.url, nil)
		if err != nil || r.URL.User != nil || r.URL.RawQuery != "" || r.URL.Fragment != "" || r.URL.Scheme != "http" && r.URL.Scheme != "https" {
			t.Fatalf("%q: %q, %v", endpoint, s.url, err)
		}
		var b bytes.Buffer
		if err := s.headers.Write(&b); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(b.String(), "\n"); got != len(s.headers) || s.headers.Get("Host") != "" {
			t.Errorf("%q are %d lines of headers:\n%s", headers, got, b.String())
		}
		if s.timeout <= 0 || len(s.resource) > maxAttrs {
			t.Errorf("%q: a timeout of %v, %d attributes", vars, s.timeout, len(s.resource))
		}
		caller, called := link{sampled: true}, s.sample(link{sampled: true}, true, traceID{1})
		if again := s.sample(caller, true, traceID{1}); again != called {
			t.Errorf("%q: a trace is recorded %v, then %v", vars, called, again)
		}
	})
}

var headerWarning = regexp.MustCompile(`^OTEL_EXPORTER_OTLP_HEADERS: entry \d+ is not NAME=VALUE of a header; it is left out$`)
