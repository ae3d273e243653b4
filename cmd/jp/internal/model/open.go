package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Endpoint is one [providers.llm.<name>] table of the config. It replaces a built-in provider of
// the same name as a whole: without BaseURL the address is that of the vendor, without APIKeyEnv no
// key is sent. So a key never reaches an address that another layer named.
type Endpoint struct {
	Type      string // wire format, "anthropic" or "openai"; "" = that of the built-in of this name
	BaseURL   string // http or https, without user, query or fragment
	APIKeyEnv string // variable with the key
	// API is Chat or Responses, for the format openai; "" = what the model needs. A table with
	// nothing else leaves a built-in provider as it is.
	API string
}

// Providers is what Open and Lookup know about the machine. The zero value has the built-in
// providers without keys. It is not changed after the first use.
type Providers struct {
	LLM      map[string]Endpoint // [providers.llm.<name>]
	Prices   map[string]Price    // overrides, by full model id
	Aliases  map[string]string   // model ids, by short name
	Env      func(string) string // environment; nil = empty
	Dir      string              // folder of script models; "" = script models cannot be opened
	Client   *http.Client        // nil = NewClient()
	MaxBytes int64               // most bytes of one reply on the wire; 0 = 32 MiB
}

// Config is what the constructor of a provider gets.
type Config struct {
	Name    string // name of the provider in the model id
	Model   Info   // facts about the model; Model.Name is the provider's own id
	BaseURL string // ends in "/"; "" for script models
	Key     Secret // "" = none
	KeyEnv  string // variable that had the key, for messages
	// client that follows no redirect to another host; never nil for wire formats
	Client   *http.Client
	MaxBytes int64  // most bytes of one reply on the wire
	Dir      string // folder of script models
}

// Official reports whether the endpoint is the vendor's own, and not one that only speaks its wire
// format.
func (c Config) Official() bool { return official(c.BaseURL) }

func official(base string) bool { return base == anthropicURL || ofOpenAI(base) }

// ofOpenAI reports whether a base URL is OpenAI's, also one of a region in which it processes data.
func ofOpenAI(base string) bool { return below(base, ".") }

// below reports whether the host of a base URL, behind a prefix, is below OpenAI's.
func below(base, prefix string) bool {
	u, err := url.Parse(base)
	return err == nil && u.Scheme == "https" && strings.HasSuffix(prefix+strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), ".api.openai.com")
}

// Secret is a key. Formatting it never shows it; Reveal does.
type Secret string

// Reveal returns the key itself.
func (s Secret) Reveal() string { return string(s) }

// Format writes a placeholder, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.placeholder()) }

// MarshalText returns the placeholder too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.placeholder()), nil }

func (s Secret) placeholder() string {
	if s == "" {
		return ""
	}
	return "[key]"
}

// Provider makes a Stream for one endpoint and model. It reads no more than local files.
type Provider func(Config) (Stream, error)

// Info is what is known about a model without asking anyone.
type Info struct {
	ID        string // "provider/name", aliases resolved
	Provider  string
	Name      string // the provider's own id
	Window    int    // tokens of input and output together, 0 = unknown
	MaxOutput int    // tokens, 0 = unknown
	Price     *Price // nil = unknown
	Region    bool   // whether Price is a built-in one and what OpenAI takes more for a region
	Format    string // wire format: "anthropic", "openai" or "script"
	// whether its wire format has images; only its server knows whether the model takes them
	Images   bool
	Local    bool   // whether it runs on this machine or is a script
	Endpoint string // base URL, "" for script models
	API      string // Chat or Responses, for the format openai; "" otherwise
	KeyEnv   string // variable with the key; "" = none is sent
	Account  Account
}

const (
	anthropicOutput = 32_000 // tokens of output for Anthropic's models, whose requests need a limit
	// the same for unknown models of servers with its wire format; most accept it
	compatible    = 8_192
	unknownOutput = 32 << 10
)

// Output returns the most tokens of output of a reply, where the caller wants at most asked, 0 for
// as many as the model gives. A request says this number, if it says any. It is what is reserved
// for the reply.
func (i Info) Output(asked int) int {
	n := asked
	switch {
	case n > 0:
	case i.Format != "anthropic":
		n = cmp.Or(i.MaxOutput, unknownOutput)
	case i.MaxOutput > 0 || official(i.Endpoint):
		n = anthropicOutput
	default:
		n = compatible
	}
	if i.MaxOutput > 0 {
		n = min(n, i.MaxOutput)
	}
	return n
}

// Account identifies what a rate limit of a provider applies to. Vendors limit each model
// separately, and one model is overloaded at a time. The zero value is that of script models.
// Formatting it does not show the key.
type Account struct {
	Endpoint string // base URL
	Key      Secret // "" = none is sent, or it was not looked for
	Model    string // the provider's own id
}

const defaultMaxBytes = 32 << 20

// target is one endpoint, resolved.
type target struct {
	name, format, url, keyEnv, api string
}

func (p Providers) env(name string) string {
	if p.Env == nil {
		return ""
	}
	return p.Env(name)
}

// Key returns the key of a model that Lookup has found, "" if none is sent. The *Error of KindAuth
// for a key that is missing or cannot be one names the variable.
func (p Providers) Key(info Info) (Secret, error) {
	if info.KeyEnv == "" {
		return "", nil
	}
	key := Secret(strings.TrimSpace(p.env(info.KeyEnv)))
	if key == "" {
		return "", &Error{Provider: info.Provider, Kind: KindAuth, Final: true,
			Message: fmt.Sprintf("no key: %s is not set", info.KeyEnv),
			Hint:    fmt.Sprintf("export %s, or choose another model", info.KeyEnv)}
	}
	// For a key with a line break net/http would return an error with the key in it.
	if strings.ContainsFunc(key.Reveal(), func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return "", &Error{Provider: info.Provider, Kind: KindAuth, Final: true,
			Message: fmt.Sprintf("the key in %s holds a space or a character that no key has", info.KeyEnv)}
	}
	return key, nil
}

// Open returns the Stream of the model with the given id: "anthropic/<model>", "openai/<model>",
// "ollama/<model>", "<name>/<model>" for a [providers.llm.<name>], "script/<file>", or an alias.
// The constructors are keyed by wire format: "anthropic", "openai", "script". A missing key is an
// *Error of KindAuth that names the variable, found before anything else is done. Nothing is sent;
// the certificates for https are being loaded when Open returns.
func Open(ctx context.Context, id string, constructors map[string]Provider, p Providers) (Stream, Info, error) {
	info, t, err := p.resolve(id)
	if err != nil {
		return nil, Info{}, err
	}
	c := Config{Name: t.name, Model: info, BaseURL: t.url, KeyEnv: t.keyEnv, MaxBytes: p.MaxBytes, Dir: p.Dir}
	if c.Key, err = p.Key(info); err != nil {
		return nil, Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return nil, Info{}, context.Cause(ctx)
	}
	construct, ok := constructors[t.format]
	if !ok {
		return nil, Info{}, &Error{Provider: t.name, Kind: KindUnknownModel, Final: true,
			Message: fmt.Sprintf("wire format %q is not part of this program", t.format)}
	}
	if c.BaseURL != "" {
		info.Account = Account{Endpoint: c.BaseURL, Key: c.Key, Model: info.Name}
		if strings.HasPrefix(c.BaseURL, "https:") {
			Warm()
		}
		if c.Client = p.Client; c.Client == nil {
			c.Client = NewClient()
		}
		if c.MaxBytes <= 0 {
			c.MaxBytes = defaultMaxBytes
		}
	}
	s, err := construct(c)
	if err != nil {
		return nil, Info{}, err
	}
	return s, info, nil
}

// Lookup returns what is known about the model with the given id or alias. It needs no key. The
// error is an *Error of KindUnknownModel.
func Lookup(id string, p Providers) (Info, error) {
	info, _, err := p.resolve(id)
	return info, err
}

// resolve follows aliases and finds the endpoint.
func (p Providers) resolve(id string) (Info, target, error) {
	unknown := func(format string, args ...any) (Info, target, error) {
		return Info{}, target{}, &Error{Kind: KindUnknownModel, Final: true, Message: fmt.Sprintf(format, args...), Model: id,
			Hint: "an id is provider/model, such as anthropic/claude-sonnet-5-5"}
	}
	for hops := 0; ; hops++ {
		next, ok := p.Aliases[id]
		if !ok {
			break
		}
		if hops == 8 {
			return unknown("alias %q leads in a circle", id)
		}
		id = next
	}
	provider, name, ok := strings.Cut(id, "/")
	if !ok {
		return unknown("model %q: no provider named", id)
	}
	if provider == "" || name == "" || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return unknown("model %q: not an id", id)
	}

	t, isBuiltin := p.builtin(provider)
	if table, ok := p.LLM[provider]; ok {
		var err error
		if t, err = table.target(provider, t, isBuiltin); err != nil {
			return Info{}, target{}, err
		}
	} else if !isBuiltin {
		return unknown("provider %q of model %q is not known: there are %s", provider, id, strings.Join(p.names(), ", "))
	}
	if t.format != "script" {
		u, err := baseURL(t.url)
		if err != nil {
			return Info{}, target{}, &Error{Provider: provider, Kind: KindBadRequest, Final: true, Message: "base URL: " + err.Error()}
		}
		t.url = u.String()
	}

	info := Info{ID: id, Provider: provider, Name: name, Format: t.format, Endpoint: t.url, KeyEnv: t.keyEnv, Images: t.format != "script"}
	if t.format == "openai" {
		info.API = cmp.Or(t.api, apiOf(t.url, name))
	}
	info.Local = t.format == "script" || loopback(t.url)
	if k, ok := tableEntry(id); ok {
		info.Window, info.MaxOutput, info.Price = k.window, k.output, &k.price
		if info.Region = below(t.url, "") && GPT(name) >= 504; info.Region {
			info.Price = k.price.regional()
		}
	} else if t.format == "script" || info.Local && t.keyEnv == "" && !strings.HasSuffix(strings.ToLower(name), "cloud") {
		// A server on this machine that takes a key may be a proxy of one that takes money. Models
		// of Ollama named "...:cloud" or "...-cloud" run on another machine, for money.
		info.Price = &Price{}
	}
	if price, ok := p.Prices[id]; ok {
		info.Price, info.Region = &price, false
	}
	return info, t, nil
}

// target applies a config table to the built-in provider of the same name, if there is one.
func (e Endpoint) target(name string, b target, isBuiltin bool) (target, error) {
	bad := func(format string, args ...any) (target, error) {
		return target{}, &Error{Provider: name, Kind: KindBadRequest, Final: true,
			Message: fmt.Sprintf("providers.llm.%s: ", name) + fmt.Sprintf(format, args...)}
	}
	if isBuiltin && b.format == "script" {
		return bad("the name is taken by script models")
	}
	if isBuiltin && e == (Endpoint{API: e.API}) {
		b.api = e.API
		return b, nil
	}
	t := target{name: name, format: e.Type, url: e.BaseURL, keyEnv: e.APIKeyEnv, api: e.API}
	if isBuiltin {
		if t.format == "" {
			t.format = b.format
		}
		if t.url == "" {
			own, _ := FindBuiltin(name)
			t.url = own.URL
		}
	}
	switch {
	case t.format == "":
		return bad("type is missing: anthropic or openai")
	case t.format != "anthropic" && t.format != "openai":
		return bad("type %q: must be anthropic or openai", t.format)
	case t.url == "":
		return bad("base_url is missing")
	case t.api != "" && (t.format != "openai" || t.api != Chat && t.api != Responses):
		return bad("api %q: must be chat or responses, of the type openai", t.api)
	}
	return t, nil
}

// The two APIs of the wire format openai.
const (
	Chat      = "chat"      // chat completions
	Responses = "responses" // the Responses API
)

// apiOf returns the API that a model needs. From GPT-5.4 on, and in its "pro" and "codex" models,
// the vendor combines reasoning and tools only in the Responses API. Every other server has chat
// completions; not all have the Responses API.
func apiOf(base, name string) string {
	if ofOpenAI(base) && (GPT(name) >= 504 || strings.Contains(name, "-pro") || strings.Contains(name, "codex")) {
		return Responses
	}
	return Chat
}

// names lists the providers that an id may start with.
func (p Providers) names() []string {
	names := slices.Collect(maps.Keys(p.LLM))
	for _, b := range Builtins() {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// baseURL checks a base URL and ends its path in "/". It rejects parts that could have a key in
// them, because addresses are shown.
func baseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("not an address")
	case u.User != nil:
		return nil, fmt.Errorf("holds a user or password; name the key with api_key_env")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("%q: must start with http:// or https:// and name a host", s)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("has a query or a fragment")
	}
	if !strings.HasSuffix(u.Path, "/") {
		u = u.JoinPath("/")
	}
	return u, nil
}

// loopback reports whether a base URL points at this machine.
func loopback(s string) bool {
	u, err := url.Parse(s)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsLoopback()
}

// ollamaHost turns $OLLAMA_HOST, which Ollama reads leniently, into a base URL: "host",
// "host:port", ":port" and "scheme://host:port/path" all occur. An address to listen on means this
// machine.
func ollamaHost(s string) string {
	s = strings.Trim(strings.TrimSpace(s), `"'`)
	if s == "" {
		return ollamaURL
	}
	scheme, rest, ok := strings.Cut(s, "://")
	port := "11434"
	switch {
	case !ok:
		scheme, rest = "http", s
	case scheme == "http":
		port = "80"
	case scheme == "https":
		port = "443"
	}
	hostport, path, _ := strings.Cut(rest, "/")
	host, p, err := net.SplitHostPort(hostport)
	if err != nil {
		host, p = strings.Trim(hostport, "[]"), port
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	u := url.URL{Scheme: scheme, Host: net.JoinHostPort(host, p), Path: "/" + strings.Trim(path, "/")}
	return u.JoinPath("v1/").String()
}
