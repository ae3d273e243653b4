package otel

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"jp/tools/files"
)

// Variables that are named in more than one place.
const (
	varEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	varTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	varExporter       = "OTEL_TRACES_EXPORTER"
	varDisabled       = "OTEL_SDK_DISABLED"
)

// settings are what the environment says, read once.
type settings struct {
	url      string // where traces are posted
	client   *http.Client
	headers  http.Header
	gzip     bool
	timeout  time.Duration // of one request
	resource []Attr
	scope    string // version of this program
	content  bool   // texts are recorded too
	sample   sampler
}

// sampler decides whether a trace that begins in this process is recorded. called says that there
// is a caller.
type sampler func(caller link, called bool, trace traceID) bool

// readSettings reads the environment. It reports settings that cannot be followed. If no trace can
// be sent as they ask, or none is wanted, it returns no settings.
func readSettings(env func(string) string, version string, pid int) (*settings, []string) {
	r := reader{env: env}
	s := &settings{scope: version}
	r.wanted()
	r.endpoint(s)
	r.protocol()
	r.client(s)
	if r.off {
		return nil, r.warnings
	}
	s.timeout = r.millis("TIMEOUT", 10*time.Second)
	s.headers = r.headers()
	s.headers.Set("Content-Type", "application/x-protobuf")
	s.headers.Set("User-Agent", "jp/"+version)
	s.gzip = r.compressed()
	if s.gzip {
		s.headers.Set("Content-Encoding", "gzip")
	}
	s.resource = r.resource(version, pid)
	s.sample = r.sampler()
	s.content = r.content()
	return s, r.warnings
}

// reader collects what is wrong with the settings.
type reader struct {
	env      func(string) string
	off      bool
	warnings []string
}

func (r *reader) warn(format string, a ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, a...))
}

// refuse says why no trace is sent, once.
func (r *reader) refuse(format string, a ...any) {
	if !r.off {
		r.warn(format+"; no traces are sent", a...)
	}
	r.off = true
}

// otlp returns a setting of the exporter and the name of its variable: the one for traces, else the
// one for all signals.
func (r *reader) otlp(name string) (value, from string) {
	from = "OTEL_EXPORTER_OTLP_TRACES_" + name
	if value = strings.TrimSpace(r.env(from)); value == "" {
		from = "OTEL_EXPORTER_OTLP_" + name
		value = strings.TrimSpace(r.env(from))
	}
	return value, from
}

// wanted finds out whether traces are to be sent at all.
func (r *reader) wanted() {
	if strings.EqualFold(strings.TrimSpace(r.env(varDisabled)), "true") {
		r.off = true
		return
	}
	names := strings.FieldsFunc(r.env(varExporter), func(c rune) bool { return c == ',' || c == ' ' })
	switch {
	case len(names) == 0 || slices.Contains(names, "otlp"):
	case slices.Contains(names, "none"):
		r.off = true
	default:
		r.refuse("%s: %q is not supported, only otlp and none", varExporter, strings.Join(names, ","))
	}
}

func (r *reader) endpoint(s *settings) {
	value, from := r.otlp("ENDPOINT")
	if value == "" {
		value, from = "http://localhost:4318", varEndpoint
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		r.refuse("%s: want http:// or https:// and a host", from)
		return
	case u.User != nil: // addresses are shown
		r.refuse("%s: holds a user or password, which belong in OTEL_EXPORTER_OTLP_HEADERS", from)
		return
	case u.RawQuery != "" || u.Fragment != "":
		r.refuse("%s: has a query or a fragment", from)
		return
	}
	if from == varEndpoint {
		u = u.JoinPath("v1", "traces")
	} else if u.Path == "" {
		u.Path = "/"
	}
	s.url = u.String()
}

func (r *reader) protocol() {
	value, from := r.otlp("PROTOCOL")
	switch value {
	case "", "http/protobuf":
	case "grpc":
		r.refuse("%s: grpc is not supported: set it to http/protobuf, and the port to that of OTLP over HTTP, mostly 4318", from)
	default:
		r.refuse("%s: %q is not supported, only http/protobuf", from, value)
	}
}

// client makes the HTTP client: proxies from the environment, certificates as the variables say,
// and no redirect, along which the headers would go.
func (r *reader) client(s *settings) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if file, from := r.otlp("CERTIFICATE"); file != "" && !r.off {
		pem, err := readPEM(file)
		conf.RootCAs = x509.NewCertPool()
		if err != nil {
			r.refuse("%s: %v", from, err)
		} else if !conf.RootCAs.AppendCertsFromPEM(pem) {
			r.refuse("%s: %s: holds no certificate", from, file)
		}
	}
	cert, from := r.otlp("CLIENT_CERTIFICATE")
	key, keyFrom := r.otlp("CLIENT_KEY")
	switch {
	case cert == "" && key == "" || r.off:
	case cert == "" || key == "":
		r.refuse("%s and %s: one is not set", from, keyFrom)
	default:
		pair, err := clientPair(cert, key)
		if err != nil {
			r.refuse("%s: %v", from, err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	s.client = &http.Client{
		Transport: &http.Transport{
			// With a dialer of its own it speaks no HTTP/2, where a collector that does not read stops
			// a Read or Close for as long as it likes.
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// maxPEM bounds a file of certificates in bytes; the system's own are a quarter of that.
const maxPEM = 1 << 20

// readPEM reads a file that has an end.
func readPEM(file string) ([]byte, error) {
	data, _, err := files.ReadRegular(files.Disk{}, file, maxPEM, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, files.Reason(err))
	}
	return data, nil
}

// clientPair is the certificate in one file, with the key in another.
func clientPair(cert, key string) (tls.Certificate, error) {
	certPEM, err := readPEM(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := readPEM(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}

// millis is a time that a variable gives in milliseconds.
func (r *reader) millis(name string, otherwise time.Duration) time.Duration {
	value, from := r.otlp(name)
	if value == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n <= 0 {
		r.warn("%s: %q is not a number of milliseconds above 0; it is %d", from, value, otherwise.Milliseconds())
		return otherwise
	}
	return time.Duration(n) * time.Millisecond
}

// headers are those to send along. Their values are keys: no message shows one.
func (r *reader) headers() http.Header {
	value, from := r.otlp("HEADERS")
	h := http.Header{}
	for i, pair := range pairs(value) {
		if pair.bad || !headerName(pair.key) || strings.ContainsFunc(pair.value, func(c rune) bool { return c < ' ' && c != '\t' || c > '~' }) {
			r.warn("%s: entry %d is not NAME=VALUE of a header; it is left out", from, i+1)
			continue
		}
		h.Set(pair.key, pair.value)
	}
	return h
}

// headerName reports whether name is a token, and not one of the headers that describe the body.
func headerName(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "", "Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Connection", "Host":
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c))
	})
}

// HeaderSecrets returns what no other program should see of the value of a variable with headers:
// the value of each header, as it is sent and as it is written, and what stands in it behind the
// name of a scheme.
func HeaderSecrets(value string) (list []string) {
	for _, p := range pairs(value) {
		for _, s := range []string{p.value, p.written} {
			list = append(list, s)
			for _, blank := range []string{" ", "%20"} {
				if i := strings.LastIndex(s, blank); i >= 0 {
					list = append(list, s[i+len(blank):])
				}
			}
		}
	}
	return list
}

type pair struct {
	key, value string
	written    string // value in percent-encoding
	bad        bool
}

// pairs reads KEY=VALUE,KEY=VALUE with values in percent-encoding.
func pairs(list string) (all []pair) {
	if strings.TrimSpace(list) == "" {
		return nil
	}
	for entry := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		key, value, ok := strings.Cut(entry, "=")
		p := pair{key: strings.TrimSpace(key), written: strings.TrimSpace(value)}
		var err error
		p.value, err = url.PathUnescape(p.written)
		p.bad = !ok || p.key == "" || err != nil
		all = append(all, p)
	}
	return all
}

func (r *reader) compressed() bool {
	value, from := r.otlp("COMPRESSION")
	switch value {
	case "", "none":
	case "gzip":
		return true
	default:
		r.warn("%s: %q is not supported, only gzip and none; traces are not compressed", from, value)
	}
	return false
}

// resource describes this process.
func (r *reader) resource(version string, pid int) []Attr {
	list := []Attr{
		Str("service.name", "jp"), Str("service.version", version), Int("process.pid", int64(pid)),
		Str("telemetry.sdk.name", "jp"), Str("telemetry.sdk.language", "go"), Str("telemetry.sdk.version", version),
	}
	set := func(a Attr) {
		if i := slices.IndexFunc(list, func(b Attr) bool { return a.key == b.key }); i >= 0 {
			list[i] = a
		} else if a.key != "" && len(list) < maxAttrs {
			list = append(list, a)
		}
	}
	const from = "OTEL_RESOURCE_ATTRIBUTES"
	all := pairs(r.env(from))
	if most := maxAttrs - len(list); len(all) > most {
		r.warn("%s: has %d entries; the first %d count", from, len(all), most)
		all = all[:most]
	}
	for i, p := range all {
		if p.bad {
			r.warn("%s: entry %d is not KEY=VALUE; it is left out", from, i+1)
			continue
		}
		set(Str(text(p.key), p.value))
	}
	set(Str("service.name", r.env("OTEL_SERVICE_NAME")))
	return list
}

// sampler is the one of OTEL_TRACES_SAMPLER.
func (r *reader) sampler() sampler {
	const from = "OTEL_TRACES_SAMPLER"
	value := strings.TrimSpace(r.env(from))
	name, byCaller := strings.CutPrefix(value, "parentbased_")
	always := func(on bool) sampler { return func(link, bool, traceID) bool { return on } }
	var own sampler
	switch name {
	case "always_on":
		own = always(true)
	case "always_off":
		own = always(false)
	case "traceidratio":
		own = ratio(r.ratio(from + "_ARG"))
	default:
		if value != "" {
			r.warn("%s: %q is not supported, only always_on, always_off, traceidratio and these with parentbased_ before; it is parentbased_always_on",
				from, value)
		}
		own, byCaller = always(true), true
	}
	if !byCaller {
		return own
	}
	return func(caller link, called bool, trace traceID) bool {
		if called {
			return caller.sampled
		}
		return own(caller, called, trace)
	}
}

func (r *reader) ratio(from string) float64 {
	value := strings.TrimSpace(r.env(from))
	if value == "" {
		return 1
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > 1 {
		r.warn("%s: %q is not a number from 0 to 1; it is 1", from, value)
		return 1
	}
	return f
}

// ratio records a share of all traces, chosen by their ids, as OpenTelemetry's SDK for Go does: all
// processes choose the same traces.
func ratio(share float64) sampler {
	return func(_ link, _ bool, trace traceID) bool {
		return share >= 1 || binary.BigEndian.Uint64(trace[8:])>>1 < uint64(share*(1<<63))
	}
}

// content reports whether texts are recorded.
func (r *reader) content() bool {
	const from = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
	switch value := strings.TrimSpace(r.env(from)); strings.ToLower(value) {
	case "", "false", "no_content", "event_only":
	case "true", "span_only", "span_and_event":
		return true
	default:
		r.warn("%s: %q is neither true nor false; no content is recorded", from, value)
	}
	return false
}
