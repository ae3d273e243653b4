package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"jp/convstore"
	"jp/profiles/alias"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// record is a constructor that keeps what it was given.
func record(got *Config) Provider {
	return func(c Config) (Stream, error) {
		*got = c
		return nil, nil
	}
}

func TestOpen(t *testing.T) {
	keys := []string{"ANTHROPIC_API_KEY", " ka\n", "OPENAI_API_KEY", "ko", "MINE", "km"}
	tests := []struct {
		id       string
		env      []string
		llm      map[string]Endpoint
		url      string
		key      string
		name     string
		local    bool
		official bool
	}{
		{id: "anthropic/claude-x", url: "https://api.anthropic.com/", key: "ka", name: "claude-x", official: true},
		{id: "openai/gpt/x", url: "https://api.openai.com/v1/", key: "ko", name: "gpt/x", official: true},
		{id: "anthropic/x", env: []string{"ANTHROPIC_BASE_URL", "http://localhost:8080/proxy"}, url: "http://localhost:8080/proxy/", key: "ka", name: "x", local: true},
		{id: "openai/x", env: []string{"OPENAI_BASE_URL", "https://example.com/v1/"}, url: "https://example.com/v1/", key: "ko", name: "x"},
		{id: "ollama/qwen3:8b", url: "http://127.0.0.1:11434/v1/", name: "qwen3:8b", local: true},
		{id: "ollama/x", env: []string{"OLLAMA_HOST", "box:99"}, url: "http://box:99/v1/", name: "x"},
		{id: "script/a/b.toml", name: "a/b.toml", local: true},
		{id: "mine/x", llm: map[string]Endpoint{"mine": {Type: "openai", BaseURL: "http://10.0.0.1/v1", APIKeyEnv: "MINE"}}, url: "http://10.0.0.1/v1/", key: "km", name: "x"},
		{id: "mine/x", llm: map[string]Endpoint{"mine": {Type: "anthropic", BaseURL: "http://[::1]:80"}}, url: "http://[::1]:80/", name: "x", local: true},
		// A table replaces a built-in as a whole: its address never meets the built-in's key.
		{id: "openai/x", llm: map[string]Endpoint{"openai": {BaseURL: "http://10.0.0.1/v1"}}, url: "http://10.0.0.1/v1/", name: "x"},
		{id: "openai/x", env: []string{"OPENAI_BASE_URL", "http://evil.example"}, llm: map[string]Endpoint{"openai": {APIKeyEnv: "MINE"}},
			url: "https://api.openai.com/v1/", key: "km", name: "x", official: true},
	}
	for _, tt := range tests {
		var got Config
		p := Providers{Env: env(append(tt.env, keys...)...), LLM: tt.llm}
		_, info, err := Open(t.Context(), tt.id, map[string]Provider{"anthropic": record(&got), "openai": record(&got), "script": record(&got)}, p)
		if err != nil {
			t.Errorf("Open(%q): %v", tt.id, err)
			continue
		}
		if got.BaseURL != tt.url || got.Key.Reveal() != tt.key || info.Name != tt.name || info.Local != tt.local || got.Official() != tt.official || info.ID != tt.id {
			t.Errorf("Open(%q) = url %q, key %q, name %q, local %t, official %t, want %+v", tt.id, got.BaseURL, got.Key.Reveal(), info.Name, info.Local, got.Official(), tt)
		}
		if got.BaseURL != "" && (got.Client == nil || got.MaxBytes != 32<<20) {
			t.Errorf("Open(%q): client %v, ceiling %d", tt.id, got.Client, got.MaxBytes)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	tests := []struct {
		id   string
		llm  map[string]Endpoint
		env  []string
		kind Kind
		want string
	}{
		{"anthropic/x", nil, nil, KindAuth, "anthropic: auth: no key: ANTHROPIC_API_KEY is not set"},
		{"openai/x", nil, []string{"OPENAI_API_KEY", " "}, KindAuth, "openai: auth: no key: OPENAI_API_KEY is not set"},
		{"openai/x", nil, []string{"OPENAI_API_KEY", "a\nb"}, KindAuth, "openai: auth: the key in OPENAI_API_KEY holds a space or a character that no key has"},
		{"mine/x", map[string]Endpoint{"mine": {Type: "openai", BaseURL: "http://h", APIKeyEnv: "NO_SUCH"}}, nil, KindAuth, "mine: auth: no key: NO_SUCH is not set"},
		{"gpt-5", nil, nil, KindUnknownModel, `model "gpt-5": no provider named`},
		{"", nil, nil, KindUnknownModel, `model "": no provider named`},
		{"/x", nil, nil, KindUnknownModel, `model "/x": not an id`},
		{"openai/", nil, nil, KindUnknownModel, `model "openai/": not an id`},
		{"openai/a b", nil, nil, KindUnknownModel, `model "openai/a b": not an id`},
		{"openai/a\x1b[2J", nil, nil, KindUnknownModel, `model "openai/a\x1b[2J": not an id`},
		{"gogle/x", map[string]Endpoint{"google": {}}, nil, KindUnknownModel, `provider "gogle" of model "gogle/x" is not known: there are anthropic, gemini, google, llamacpp, ollama, openai, openrouter, script`},
		{"loop", nil, nil, KindUnknownModel, `alias "loop" leads in a circle`},
		{"mine/x", map[string]Endpoint{"mine": {BaseURL: "http://h"}}, nil, KindBadRequest, "mine: bad_request: providers.llm.mine: type is missing: anthropic or openai"},
		{"mine/x", map[string]Endpoint{"mine": {Type: "gemini", BaseURL: "http://h"}}, nil, KindBadRequest, `mine: bad_request: providers.llm.mine: type "gemini": must be anthropic or openai`},
		{"mine/x", map[string]Endpoint{"mine": {Type: "openai"}}, nil, KindBadRequest, "mine: bad_request: providers.llm.mine: base_url is missing"},
		{"script/x", map[string]Endpoint{"script": {Type: "openai", BaseURL: "http://h"}}, nil, KindBadRequest, "script: bad_request: providers.llm.script: the name is taken by script models"},
		{"mine/x", map[string]Endpoint{"mine": {Type: "openai", BaseURL: "http://u:secret@h"}}, nil, KindBadRequest, "mine: bad_request: base URL: holds a user or password; name the key with api_key_env"},
		{"mine/x", map[string]Endpoint{"mine": {Type: "openai", BaseURL: "http://h?key=secret"}}, nil, KindBadRequest, "mine: bad_request: base URL: has a query or a fragment"},
		{"mine/x", map[string]Endpoint{"mine": {Type: "openai", BaseURL: "localhost:8080"}}, nil, KindBadRequest, `mine: bad_request: base URL: "localhost:8080": must start with http:// or https:// and name a host`},
		{"mine/x", map[string]Endpoint{"mine": {Type: "openai", BaseURL: "file:///etc/passwd"}}, nil, KindBadRequest, `mine: bad_request: base URL: "file:///etc/passwd": must start with http:// or https:// and name a host`},
		{"mine/x", map[string]Endpoint{"mine": {Type: "openai", BaseURL: "http://h\x00/"}}, nil, KindBadRequest, "mine: bad_request: base URL: not an address"},
	}
	for _, tt := range tests {
		p := Providers{Env: env(tt.env...), LLM: tt.llm, Aliases: map[string]string{"loop": "loop2", "loop2": "loop"}}
		constructed := false
		fail := func(Config) (Stream, error) { constructed = true; return nil, nil }
		_, _, err := Open(t.Context(), tt.id, map[string]Provider{"anthropic": fail, "openai": fail, "script": fail}, p)
		var e *Error
		if !errors.As(err, &e) || e.Kind != tt.kind || e.Error() != tt.want || e.Temporary() || constructed {
			t.Errorf("Open(%q) = %v, want %s", tt.id, err, tt.want)
		}
	}
}

func TestOpenMissingFormat(t *testing.T) {
	_, _, err := Open(t.Context(), "ollama/x", nil, Providers{})
	if want := `ollama: wire format "openai" is not part of this program`; message(err) != want {
		t.Errorf("error = %v, want %s", err, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Open(ctx, "ollama/x", nil, Providers{}); err != context.Canceled {
		t.Errorf("error = %v, want %v", err, context.Canceled)
	}
}

func TestLookup(t *testing.T) {
	own := Price{Input: 7}
	p := Providers{
		Aliases: map[string]string{"smart": "best", "best": "anthropic/claude-opus-5-5"},
		Prices:  map[string]Price{"openai/gpt-5": own},
		Env:     env("ANTHROPIC_BASE_URL", "http://127.0.0.1:1"),
		LLM: map[string]Endpoint{"far": {Type: "openai", BaseURL: "https://far.example"}, "near": {Type: "openai", BaseURL: "http://127.0.0.2:1"},
			"proxy": {Type: "openai", BaseURL: "http://127.0.0.2:1", APIKeyEnv: "MINE"}},
	}
	free := &Price{}
	tests := []struct {
		id     string
		want   string
		price  *Price
		window int
	}{
		{"smart", "anthropic/claude-opus-5-5", &Price{Input: 4000, Output: 20000, CacheRead: 200, CacheWrite: 5000}, 1_000_000},
		{"openai/gpt-5", "openai/gpt-5", &own, 400_000},
		{"openai/gpt-5-2099", "openai/gpt-5-2099", nil, 0},
		{"far/gpt-5", "far/gpt-5", nil, 0},
		{"near/gpt-5", "near/gpt-5", free, 0},
		{"ollama/llama3", "ollama/llama3", free, 0},
		{"ollama/gpt-oss:120b-cloud", "ollama/gpt-oss:120b-cloud", nil, 0},
		{"ollama/gpt-oss:120b-Cloud", "ollama/gpt-oss:120b-Cloud", nil, 0}, // which Ollama takes for the same
		{"script/x.toml", "script/x.toml", free, 0},
		{"proxy/gpt-5", "proxy/gpt-5", nil, 0}, // what takes a key may take money
		{"anthropic/claude-2099", "anthropic/claude-2099", nil, 0},
	}
	for _, tt := range tests {
		got, err := Lookup(tt.id, p)
		if err != nil || got.ID != tt.want || !reflect.DeepEqual(got.Price, tt.price) || got.Window != tt.window {
			t.Errorf("Lookup(%q) = %+v (price %+v), %v", tt.id, got, got.Price, err)
		}
	}
}

// TestRegion: OpenAI takes 10% more at an address of a region, for models from GPT-5.4 on. A price of
// one's own is as it is.
func TestRegion(t *testing.T) {
	own := Price{Input: 7}
	plain, err := Lookup("openai/gpt-5.5", Providers{})
	if err != nil || plain.Region || plain.Price.Input != 5000 {
		t.Fatalf("Lookup = %+v, %v", plain, err)
	}
	for _, tt := range []struct {
		url, id string
		price   Price
		region  bool
	}{
		{"https://eu.api.openai.com/v1", "openai/gpt-5.5", Price{5500, 33000, 550, 5500, &LongPrice{272_000, 11000, 49500, 1100, 11000}}, true},
		{"https://US.API.OpenAI.com.:443/v1", "openai/gpt-6-luna", Price{110, 550, 11, 138, &LongPrice{272_000, 220, 825, 22, 275}}, true},
		{"https://eu.api.openai.com/v1", "openai/gpt-5.2", Price{Input: 1750, Output: 14000, CacheRead: 175, CacheWrite: 1750}, false},
		{"https://eu.api.openai.com/v1", "openai/gpt-5.4", own, false},
		{"https://api.openai.com:443/v1", "openai/gpt-5.5", *plain.Price, false},
		{"https://eu.api.openai.com.example/v1", "openai/gpt-5.5", *plain.Price, false},
	} {
		got, err := Lookup(tt.id, Providers{Env: env("OPENAI_BASE_URL", tt.url), Prices: map[string]Price{"openai/gpt-5.4": own}})
		if err != nil || !reflect.DeepEqual(*got.Price, tt.price) || got.Region != tt.region {
			t.Errorf("%s at %s: price = %+v, region %t, %v, want %+v", tt.id, tt.url, got.Price, got.Region, err, tt.price)
		}
	}
}

// TestOllamaElsewhere: a model is not free because of the name of its provider.
func TestOllamaElsewhere(t *testing.T) {
	for name, p := range map[string]Providers{
		"host": {Env: env("OLLAMA_HOST", "box")},
		"url":  {LLM: map[string]Endpoint{"ollama": {BaseURL: "https://models.example/v1"}}},
		"key":  {LLM: map[string]Endpoint{"ollama": {APIKeyEnv: "MINE"}}},
	} {
		if got, err := Lookup("ollama/llama3", p); err != nil || got.Price != nil {
			t.Errorf("%s: price = %+v, %v, want an unknown one", name, got.Price, err)
		}
	}
}

func TestOllamaHost(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "http://127.0.0.1:11434/v1/",
		"0.0.0.0":                  "http://127.0.0.1:11434/v1/",
		":8000":                    "http://127.0.0.1:8000/v1/",
		"[::]:8000":                "http://127.0.0.1:8000/v1/",
		"box":                      "http://box:11434/v1/",
		"box:1":                    "http://box:1/v1/",
		"http://box":               "http://box:80/v1/",
		"https://box.example/path": "https://box.example:443/path/v1/",
		" 'box:1' ":                "http://box:1/v1/",
		"[::1]:11434":              "http://[::1]:11434/v1/",
		"::1":                      "http://[::1]:11434/v1/",
	} {
		if got := ollamaHost(in); got != want {
			t.Errorf("ollamaHost(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSecret(t *testing.T) {
	s := Secret("hunter2")
	c := Config{Key: s}
	data, err := json.Marshal(map[string]any{"key": s})
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{fmt.Sprintf("%v %s %q %x %#v %+v", s, s, s, s, s, s), fmt.Sprintf("%v %+v %#v", c, c, c), string(data)} {
		if strings.Contains(got, "hunter2") || strings.Contains(got, "68756e74657232") {
			t.Errorf("%q shows the key", got)
		}
	}
}

func TestCost(t *testing.T) {
	haiku, err := Lookup("anthropic/claude-haiku-5-5", Providers{})
	if err != nil {
		t.Fatal(err)
	}
	gpt, err := Lookup("openai/gpt-6.1-sol", Providers{})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		price Price
		usage convstore.Usage
		want  int64
	}{
		{"each kind", Price{Input: 1, Output: 10, CacheRead: 100, CacheWrite: 1000}, convstore.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}, 4321},
		{"free", Price{}, convstore.Usage{Input: 1 << 60}, 0},
		{"a million of input is ten cents", *haiku.Price, convstore.Usage{Output: 1_000_000}, 500_000_000},
		{"up to the threshold", *haiku.Price, convstore.Usage{Input: 50_000, CacheRead: 50_000}, 50_000*100 + 50_000*10},
		{"above it", *haiku.Price, convstore.Usage{Input: 50_000, CacheRead: 50_001, Output: 1}, 50_000*500 + 50_001*50 + 2500},
		{"twice, and half as much again", *gpt.Price, convstore.Usage{Input: 300_000, Output: 10}, 300_000*4000 + 10*15_000},
		{"negative", Price{Input: 5}, convstore.Usage{Input: -3}, 0},
		{"huge", Price{Input: 1 << 40, Output: 1 << 40}, convstore.Usage{Input: math.MaxInt64, Output: math.MaxInt64}, math.MaxInt64},
		{"sum", Price{Input: 1 << 22, Output: 1 << 22}, convstore.Usage{Input: 1 << 40, Output: 1 << 40}, math.MaxInt64},
	}
	for _, tt := range tests {
		if got := tt.price.Cost(tt.usage); got != tt.want {
			t.Errorf("%s: Cost = %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestPerMillion(t *testing.T) {
	if got, want := PerMillion(3, 15, 0.3, 3.75), (Price{Input: 3000, Output: 15000, CacheRead: 300, CacheWrite: 3750}); got != want {
		t.Errorf("PerMillion = %+v, want %+v", got, want)
	}
	// A token costs whole nano-dollars, more rather than less: what is cheap is not free.
	if got, want := PerMillion(0.0004, 0.0014, 1e-9, 0.29), (Price{Input: 1, Output: 2, CacheRead: 1, CacheWrite: 290}); got != want {
		t.Errorf("PerMillion = %+v, want %+v", got, want)
	}
	if got := PerMillion(-1, math.NaN(), math.Inf(1), 0); got != (Price{CacheRead: 1 << 40}) {
		t.Errorf("PerMillion of nonsense = %+v", got)
	}
}

func TestDetect(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		fmt.Fprint(w, `{"data":[{"id":"qwen3:8b"},{"id":"nomic-embed-text"},{"id":"a b"},{"id":"\u001b[2J"},{"id":""},{"id":"gemma3"}]}`)
	}))
	defer server.Close()
	llama := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"gemma-3-4b-it","meta":{"n_ctx":8192}}]}`)
	}))
	defer llama.Close()
	got := Detect(t.Context(), env("OPENAI_API_KEY", "k", "ANTHROPIC_API_KEY", "k", "OLLAMA_HOST", server.URL, "LLAMACPP_BASE_URL", llama.URL+"/v1"))
	want := []Candidate{
		{"anthropic/claude-sonnet-5-5", "ANTHROPIC_API_KEY is set"},
		{"openai/gpt-6.1-sol", "OPENAI_API_KEY is set"},
		{"ollama/gemma3", "Ollama answers at " + server.URL},
		{"ollama/qwen3:8b", "Ollama answers at " + server.URL},
		{"llamacpp/gemma-3-4b-it", "llama.cpp answers at " + llama.URL},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Detect = %+v, want %+v", got, want)
	}
	for _, c := range want[:2] {
		if info, err := Lookup(c.Model, Providers{}); err != nil || info.Price == nil {
			t.Errorf("%s is proposed but not known", c.Model)
		}
	}

	// Only this machine is asked, and silence is no Ollama.
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hanging.Close()
	for _, host := range []string{"http://ollama.invalid", hanging.URL, "http://127.0.0.1:1"} {
		if got := Detect(t.Context(), env("OLLAMA_HOST", host, "LLAMACPP_BASE_URL", host)); len(got) != 0 {
			t.Errorf("Detect with %s = %+v", host, got)
		}
	}
}

// TestAliases holds the aliases that jp brings along to the table: a family's name is its latest
// model.
func TestAliases(t *testing.T) {
	for name, id := range alias.Builtin() {
		info, err := Lookup(id, Providers{})
		latest := slices.IndexFunc(Known(), func(id string) bool { return strings.HasPrefix(id, "anthropic/claude-"+name+"-") })
		if err != nil {
			t.Errorf("alias %s: %v", name, err)
		} else if info.Provider == "anthropic" && (latest < 0 || Known()[latest] != id) {
			t.Errorf("alias %s is %s, which is not the latest", name, id)
		} else if info.Provider == "openai" && info.Price == nil {
			t.Errorf("alias %s is %s, which is not in the table", name, id)
		}
	}
}

func TestCheaper(t *testing.T) {
	for id, want := range map[string]string{
		"anthropic/claude-sonnet-5-5": "anthropic/claude-haiku-5-5", "anthropic/unheard-of": "anthropic/claude-haiku-5-5",
		"anthropic/claude-haiku-5-5": "anthropic/claude-haiku-5-5", "openai/gpt-6.1-sol": "openai/gpt-6-luna",
		"openai/gpt-5-nano": "openai/gpt-5-nano", "ollama/qwen3": "ollama/qwen3", "gemini/gemini-3-pro": "gemini/gemini-3-pro",
	} {
		if got := Cheaper(id); got != want {
			t.Errorf("Cheaper(%s) = %s, want %s", id, got, want)
		}
	}
}

func TestNear(t *testing.T) {
	for name, want := range map[string]string{
		"claude-sonnet-5-5": "anthropic/claude-sonnet-5-5", "claude-h": "anthropic/claude-haiku-5-5", "claude": "anthropic/claude-sonnet-5-5", "gpt-6": "openai/gpt-6-astra",
		"claude-sonet-5-5": "anthropic/claude-sonnet-5-5", "cl": "", "nothing-like-it": "",
	} {
		if got := Near(name); got != want {
			t.Errorf("Near(%s) = %q, want %q", name, got, want)
		}
	}
}

// TestOutput: what is reserved for a reply is what its request says.
func TestOutput(t *testing.T) {
	for _, tt := range []struct {
		id          string
		asked, want int
	}{
		{"anthropic/claude-opus-5", 0, 32_000},
		{"anthropic/claude-opus-5", 100_000, 100_000},
		{"anthropic/claude-opus-5", 1_000_000, 128_000},
		{"anthropic/claude-unheard-of", 0, 32_000},
		{"proxy/claude-unheard-of", 0, 8_192},
		{"proxy/claude-unheard-of", 20_000, 20_000},
		{"openai/gpt-5.1", 0, 128_000},
		{"openai/gpt-4o", 100_000, 16_384},
		{"openai/gpt-unheard-of", 0, 32_768},
		{"script/x.toml", 0, 32_768},
	} {
		info, err := Lookup(tt.id, Providers{LLM: map[string]Endpoint{"proxy": {Type: "anthropic", BaseURL: "https://proxy.example/"}}})
		if got := info.Output(tt.asked); err != nil || got != tt.want {
			t.Errorf("Output(%s, %d) = %d, %v, want %d", tt.id, tt.asked, got, err, tt.want)
		}
	}
}
