package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
	modeltest "jp/cmd/jp/internal/test/model"
)

// stream returns a provider whose server answers with body.
func stream(t testing.TB, body string) (model.Stream, *modeltest.Replay) {
	t.Helper()
	return at(t, "http://127.0.0.1:1/v1/", body)
}

func at(t testing.TB, url, body string) (model.Stream, *modeltest.Replay) {
	t.Helper()
	tr := &modeltest.Replay{Body: body}
	s, err := New(model.Config{Name: "openai", BaseURL: url, Key: "k",
		Client: &http.Client{Transport: tr}, MaxBytes: 1 << 20, Model: model.Info{ID: "openai/x", Name: "x", MaxOutput: 5000}})
	if err != nil {
		t.Fatal(err)
	}
	return s, tr
}

// events writes server-sent events, one per line of data, and the end.
func events(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("data: " + l + "\n\n")
	}
	return b.String() + "data: [DONE]\n\n"
}

// delta writes a chunk.
func delta(d string) string { return `{"choices":[{"index":0,"delta":` + d + `}]}` }

func ends(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

// numbered writes so many objects in a row, as text within JSON.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{\"a\":%d}`, i)
	}
	return b.String()
}

func TestEvents(t *testing.T) {
	const told = `usage {"input_tokens":4,"output_tokens":5,"cache_read_tokens":3,"cache_write_tokens":2}` + "\n"
	const usage = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":2}}}`
	details := delta(`{"reasoning_details":[` + strings.Repeat("1,", 140_000) + `1]}`)
	tests := []struct {
		name  string
		lines []string
		want  string
		err   string
	}{
		{"text and usage", []string{delta(`{"role":"assistant","content":""}`), delta(`{"content":"a"}`), delta(`{"content":"b"}`), ends("stop"), usage},
			"text a\ntext b\n" + told + "stop end\n", ""},
		{"usage in the last chunk", []string{`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`},
			"text a\n" + `usage {"input_tokens":1,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0}` + "\nstop end\n", ""},
		{"usage of the beginning", []string{`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`, delta(`{"content":"a"}`), ends("stop")},
			"text a\n" + `usage {"input_tokens":3,"output_tokens":1,"cache_read_tokens":0,"cache_write_tokens":0}` + "\nstop end\n", ""},
		{"usage as it grows", []string{`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, `{"choices":[{"index":0,"delta":{"content":"b"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, ends("stop")},
			"text a\ntext b\n" + `usage {"input_tokens":3,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0}` + "\nstop end\n", ""},
		{"a finish reason and usage in each chunk, also of one that says nothing", []string{
			`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`,
			`{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`},
			"text a\ntext b\n" + `usage {"input_tokens":3,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0}` + "\nstop end\n", ""},
		{"a total at the end", []string{`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, delta(`{"content":"b"}`), ends("stop"), `{"choices":[],"usage":{"prompt_tokens":3,"total_tokens":9}}`},
			"text a\ntext b\n" + `usage {"input_tokens":3,"output_tokens":6,"cache_read_tokens":0,"cache_write_tokens":0}` + "\nstop end\n", ""},
		{"a cost that is told", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":0.00015}}`},
			`usage {"input_tokens":1,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0} cost 150000` + "\nstop end\n", ""},
		{"cached beside the prompt", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":300}}}`},
			`usage {"input_tokens":9,"output_tokens":5,"cache_read_tokens":300,"cache_write_tokens":0}` + "\nstop end\n", ""},
		{"cache writes as LiteLLM counted them", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":3},"cache_creation_input_tokens":2,"cache_read_input_tokens":3}}`},
			told + "stop end\n", ""},
		{"cache writes as LiteLLM counts them", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3,"cache_creation_tokens":2},"cache_creation_input_tokens":2}}`},
			told + "stop end\n", ""},
		{"cached beside the prompt, and a total", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":314,"prompt_tokens_details":{"cached_tokens":300}}}`},
			`usage {"input_tokens":9,"output_tokens":5,"cache_read_tokens":300,"cache_write_tokens":0}` + "\nstop end\n", ""},
		{"cache writes as New API counts them", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3,"cached_creation_tokens":2}}}`},
			told + "stop end\n", ""},
		{"a smaller usage later", []string{`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":2},"cost":0.5}}`,
			ends("stop"), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0,"cost":0.1}}`},
			strings.TrimSuffix(told, "\n") + " cost 500000000\nstop end\n", ""},
		{"a cost as a text", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":"0.00015"}}`},
			`usage {"input_tokens":1,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0} cost 150000` + "\nstop end\n", ""},
		{"a cost in parts", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":{"request_cost":0.005,"total_cost":0.006}}}`},
			`usage {"input_tokens":1,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0} cost 6000000` + "\nstop end\n", ""},
		{"a cost beyond all bounds", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":1e400}}`},
			`usage {"input_tokens":1,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0} cost 1000000000000000` + "\nstop end\n", ""},
		{"a fee beside what the user's own key pays", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":0.95,"is_byok":true,"cost_details":{"upstream_inference_cost":19}}}`},
			`usage {"input_tokens":1,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0} cost 19950000000` + "\nstop end\n", ""},
		{"a cost and what it was made of", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":0.5,"is_byok":false,"cost_details":{"upstream_inference_cost":0.5}}}`},
			`usage {"input_tokens":1,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0} cost 500000000` + "\nstop end\n", ""},
		{"a cost that cannot be", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":-1}}`},
			`usage {"input_tokens":1,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0}` + "\nstop end\n", ""},
		{"usage that cannot be", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":-5,"prompt_tokens_details":{"cached_tokens":7}}}`},
			`usage {"input_tokens":1,"output_tokens":0,"cache_read_tokens":7,"cache_write_tokens":0}` + "\nstop end\n", ""},
		{"reasoning beside the completion", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":1,"total_tokens":399,"completion_tokens_details":{"reasoning_tokens":386}}}`},
			`usage {"input_tokens":12,"output_tokens":387,"cache_read_tokens":0,"cache_write_tokens":0}` + "\nstop end\n", ""},
		{"reasoning within it", []string{ends("stop"), `{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":387,"total_tokens":399,"completion_tokens_details":{"reasoning_tokens":386}}}`},
			`usage {"input_tokens":12,"output_tokens":387,"cache_read_tokens":0,"cache_write_tokens":0}` + "\nstop end\n", ""},
		{"other choices", []string{`{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"length"},{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`},
			"text a\nstop end\n", ""},
		{"calls by index", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"t","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":1,"id":"2","type":"function","function":{"name":"u","arguments":"{"}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{}"}},{"index":1,"function":{"arguments":"}"}}]}`), ends("tool_calls")},
			"call 1 t {}\ncall 2 u {}\nstop tool_use\n", ""},
		{"calls with one index", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{}"}}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"2","function":{"name":"t","arguments":"{\"a\""}}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"2","function":{"name":"t","arguments":":1}"}}]}`), ends("stop")},
			"call 1 t {}\ncall 2 t {\"a\":1}\nstop tool_use\n", ""},
		{"a call under two indexes, as New API and LocalAI say it", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"b\":"}}]}`), delta(`{"tool_calls":[{"index":0,"function":{"arguments":"\"<\",\"a\":1}"}}]}`),
			delta(`{"tool_calls":[{"index":1,"id":"1","function":{"name":"t","arguments":"{\"a\": 1, \"b\": \"\\u003c\"}"}}]}`), ends("tool_calls")},
			"call 1 t {\"b\":\"<\",\"a\":1}\nstop tool_use\n", ""},
		{"a call under two indexes, first without arguments", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":1,"id":"1","function":{"name":"t","arguments":"{\"a\":1}"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":1}\nstop tool_use\n", ""},
		{"a call under two indexes, then without arguments", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":1}"}}]}`),
			delta(`{"tool_calls":[{"index":1,"id":"1","function":{"name":"t"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":1}\nstop tool_use\n", ""},
		{"a call under two indexes, without arguments", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t"}},{"index":1,"id":"1","function":{"name":"t","arguments":"{}"}}]}`), ends("tool_calls")},
			"call 1 t {}\nstop tool_use\n", ""},
		{"different calls with one id", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":1}"}},{"index":1,"id":"1","function":{"name":"t","arguments":"{\"a\":2}"}},{"index":2,"id":"1","function":{"name":"u","arguments":"{\"a\":1}"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":1}\ncall ours t {\"a\":2}\ncall ours u {\"a\":1}\nstop tool_use\n", ""},
		{"numbers that a float does not tell apart", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"[9007199254740992]"}},{"index":1,"id":"1","function":{"name":"t","arguments":"[9007199254740993]"}}]}`), ends("tool_calls")},
			"call 1 t [9007199254740992]\ncall ours t [9007199254740993]\nstop tool_use\n", ""},
		{"equal calls with an id each, or none", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{}"}},{"index":1,"id":"2","function":{"name":"t","arguments":"{}"}}]}`),
			delta(`{"tool_calls":[{"index":2,"function":{"name":"t","arguments":"{}"}},{"index":3,"function":{"name":"t","arguments":"{}"}}]}`), ends("tool_calls")},
			"call 1 t {}\ncall 2 t {}\ncall ours t {}\ncall ours t {}\nstop tool_use\n", ""},
		{"arguments once more at the end, as vLLM says them", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":"}}]}`), delta(`{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}`),
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\": 1}"}}]},"finish_reason":"tool_calls"}]}`},
			"call 1 t {\"a\":1}\nstop tool_use\n", ""},
		{"arguments once more, of a call without an id", []string{
			delta(`{"tool_calls":[{"index":0,"function":{"name":"t","arguments":"{\"a\":1}"}}]}`), delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}`), ends("tool_calls")},
			"call ours t {\"a\":1}\nstop tool_use\n", ""},
		{"arguments once more behind a part of them", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":"}}]}`), delta(`{"tool_calls":[{"index":0,"function":{"arguments":"\"x y"}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\": \"x y z\"}"}}]}`), delta(`{"tool_calls":[{"index":0,"function":{"arguments":""}}]}`), ends("tool_calls")},
			"call 1 t {\"a\": \"x y z\"}\nstop tool_use\n", ""},
		{"arguments once more behind a part of them, cut off", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":\"x y"}}]}`), delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\": \"x y\"}"}}]}`), ends("length")},
			"stop max_tokens\n", ""},
		{"a value that is not the arguments once more", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":"}}]}`), delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"b\":1}"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":{\"b\":1}\nstop tool_use\n", ""},
		{"an object in an object", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":"}}]}`), delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":{\"a\":1}}\nstop tool_use\n", ""},
		{"calls with one index and id", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":1}"},"extra_content":{"g":1}}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"\n{\"a\":"}}]}`), delta(`{"tool_calls":[{"index":0,"function":{"arguments":"2}"}}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"u","arguments":"{}"}}]}`), ends("tool_calls")},
			"thought ||{\"calls\":{\"1\":{\"g\":1}}}\ncall 1 t {\"a\":1}\ncall ours t {\"a\":2}\ncall ours u {}\nstop tool_use\n", ""},
		{"calls with one index and id, the last one cut off", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":1}{\"a\":"}}]}`), ends("length")},
			"stop max_tokens\n", ""},
		{"arguments behind empty ones", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{}"}}]}`), delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":1}\nstop tool_use\n", ""},
		{"values in a row that are no objects", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":1} 2"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":1} 2\nstop tool_use\n", ""},
		{"too many calls with one id", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"` + numbered(600) + `"}},{"index":1,"id":"2","function":{"name":"t","arguments":"` + numbered(600) + `"}}]}`), ends("tool_calls")},
			"", "openai: too_large: the reply calls more than 1024 tools"},
		{"calls without arguments, ids or index", []string{
			delta(`{"tool_calls":[{"function":{"name":"t","arguments":""}},{"function":{"name":"u"}}]}`), ends("tool_calls")},
			"call ours t {}\ncall ours u {}\nstop tool_use\n", ""},
		{"first pieces counted by tool, as SGLang counts them", []string{
			delta(`{"tool_calls":[{"index":1,"id":"1","function":{"name":"t","arguments":""}}]}`), delta(`{"tool_calls":[{"index":0,"id":null,"function":{"name":null,"arguments":"{\"a\""}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`), delta(`{"tool_calls":[{"index":0,"id":"2","function":{"name":"u","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":1,"function":{"arguments":"{\"b\""}}]}`), delta(`{"tool_calls":[{"index":1,"function":{"arguments":":2}"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":1}\ncall 2 u {\"b\":2}\nstop tool_use\n", ""},
		{"the same, with the id in each piece", []string{
			delta(`{"tool_calls":[{"index":1,"id":"1","function":{"name":"t","arguments":""}}]}`), delta(`{"tool_calls":[{"index":0,"id":"1","function":{"arguments":"{\"a\":1}"}}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"2","function":{"name":"u","arguments":""}}]}`), delta(`{"tool_calls":[{"index":1,"id":"2","function":{"arguments":"{\"b\":2}"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":1}\ncall 2 u {\"b\":2}\nstop tool_use\n", ""},
		{"pieces in turns", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t"}},{"index":1,"id":"2","function":{"name":"u"}}]}`),
			delta(`{"tool_calls":[{"index":1,"function":{"arguments":"{\"b\""}},{"index":0,"function":{"arguments":"{\"a\""}}]}`),
			delta(`{"tool_calls":[{"index":1,"function":{"arguments":":2}"}},{"index":0,"function":{"arguments":":1}"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":1}\ncall 2 u {\"b\":2}\nstop tool_use\n", ""},
		{"a call without a name behind another, whole", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":1}"}}]}`),
			delta(`{"tool_calls":[{"index":1,"id":"","function":{"name":"","arguments":"{\"b\":2}"}}]}`), ends("tool_calls")},
			"", "openai: stream: a tool call without a name"},
		{"a call without a name behind another, in pieces", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":1}"}}]}`),
			delta(`{"tool_calls":[{"index":1,"function":{"arguments":"{\"b\":"}}]}`), delta(`{"tool_calls":[{"index":1,"function":{"arguments":"2}"}}]}`), ends("tool_calls")},
			"", "openai: stream: a tool call without a name"},
		{"pieces of two calls, the first of which begins with {}", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{}"}}]}`), delta(`{"tool_calls":[{"index":1,"id":"2","function":{"name":"u","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}`), delta(`{"tool_calls":[{"index":1,"function":{"arguments":"{\"b\":2}"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":1}\ncall 2 u {\"b\":2}\nstop tool_use\n", ""},
		{"a call with other arguments, then one with none", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":1}"}}]}`), delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{}"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":1}\ncall ours t {}\nstop tool_use\n", ""},
		{"calls without ids, index and arguments, the name of one begins with that of another", []string{
			delta(`{"tool_calls":[{"function":{"name":"get","arguments":""}}]}`), delta(`{"tool_calls":[{"function":{"name":"get_weather","arguments":"{\"a\":1}"}}]}`), ends("tool_calls")},
			"call ours get {}\ncall ours get_weather {\"a\":1}\nstop tool_use\n", ""},
		{"a name that grows", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"get","arguments":""}}]}`), delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"get_weather","arguments":"{\"a\":1}"}}]}`), ends("tool_calls")},
			"call 1 get_weather {\"a\":1}\nstop tool_use\n", ""},
		{"a call that is said again with numbers written otherwise", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":0.50}"}}]}`), delta(`{"tool_calls":[{"index":1,"id":"1","function":{"name":"t","arguments":"{\"a\": 0.5}"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":0.50}\nstop tool_use\n", ""},
		{"a call that is cut off before its name", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":1}"}}]}`), delta(`{"tool_calls":[{"index":1,"id":"2","function":{"arguments":""}}]}`), ends("length")},
			"call 1 t {\"a\":1}\nstop max_tokens\n", ""},
		{"calls without ids or index", []string{
			delta(`{"tool_calls":[{"function":{"name":"t","arguments":"{}"}}]}`),
			delta(`{"tool_calls":[{"function":{"name":"u","arguments":"{\"a\""}}]}`), delta(`{"tool_calls":[{"function":{"arguments":":1}"}}]}`), ends("tool_calls")},
			"call ours t {}\ncall ours u {\"a\":1}\nstop tool_use\n", ""},
		{"arguments as an object, or none", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":{"a":[1]}}},{"index":1,"id":"2","function":{"name":"u"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":[1]}\ncall 2 u {}\nstop tool_use\n", ""},
		{"arguments that are no JSON", []string{
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":"}}]}`), ends("tool_calls")},
			"call 1 t {\"a\":\nstop tool_use\n", ""},
		{"cut off inside a call", []string{delta(`{"content":"a"}`),
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":"}}]}`), ends("length")},
			"text a\nstop max_tokens\n", ""},
		{"cut off before the arguments of a call", []string{delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":""}}]}`), ends("length")},
			"stop max_tokens\n", ""},
		{"refused inside a call", []string{delta(`{"content":"a"}`),
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":"}}]}`), ends("content_filter")},
			"text a\nstop refusal\n", ""},
		{"reasoning", []string{delta(`{"reasoning_content":"h"}`), delta(`{"reasoning_content":"m"}`), delta(`{"content":"a"}`), ends("stop")},
			"thinks h\nthinks m\ntext a\nthought hm||{\"field\":\"reasoning_content\"}\nstop end\n", ""},
		{"reasoning by another name, with details", []string{delta(`{"reasoning":"h","reasoning_details":[{"a":1}]}`), ends("stop")},
			"thinks h\nthought h||{\"field\":\"reasoning\",\"details\":[{\"a\":1}]}\nstop end\n", ""},
		{"thinking and text in parts, as Mistral has them", []string{
			delta(`{"role":"assistant","content":""}`),
			delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"h"}]}]}`),
			delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"m"},{"type":"reference","reference_ids":[1]}]},{"type":"text","text":"a"}]}`),
			delta(`{"content":[{"type":"reference","reference_ids":[1]},{"type":"text","text":"b"}]}`), delta(`{"content":"c"}`), ends("stop")},
			"thinks h\nthinks m\ntext a\ntext b\ntext c\nthought hm||{}\nstop end\n", ""},
		{"parts that are none", []string{delta(`{"content":[null,1,"a",{"type":"text"},{"type":"thinking","thinking":"h"}]}`), delta(`{"content":{"type":"text","text":"b"}}`), ends("stop")},
			"thinks h\nthought h||{}\nstop end\n", ""},
		{"reasoning under both names", []string{delta(`{"reasoning":"h","reasoning_content":"h"}`), ends("stop")},
			"thinks h\nthought h||{\"field\":\"reasoning_content\"}\nstop end\n", ""},
		{"signatures of calls", []string{delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}]}`), ends("tool_calls")},
			"thought ||{\"calls\":{\"1\":{\"google\":{\"thought_signature\":\"s\"}}}}\ncall 1 t {}\nstop tool_use\n", ""},
		{"ids that another server might refuse", []string{delta(`{"tool_calls":[{"index":0,"id":"functions.t:0","function":{"name":"t","arguments":"{}"}}]}`), ends("tool_calls")},
			"thought ||{\"named\":\"x\"}\ncall functions.t:0 t {}\nstop tool_use\n", ""},
		{"signatures in ids, as LiteLLM has them", []string{delta(`{"tool_calls":[{"index":0,"id":"call_1__thought__s/+="},{"index":1,"id":"call_2"}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"call_1__thought__s/+=","function":{"name":"t","arguments":"{}"}},{"index":1,"function":{"name":"u"}}]}`), ends("tool_calls")},
			"thought ||{\"signed\":{\"call_1\":\"s/+=\"},\"named\":\"x\"}\ncall call_1 t {}\ncall call_2 u {}\nstop tool_use\n", ""},
		{"refusal", []string{delta(`{"refusal":"No."}`), ends("stop")}, "text No.\nstop refusal\n", ""},
		{"filter", []string{delta(`{"content":"a"}`), ends("content_filter")}, "text a\nstop refusal\n", ""},
		{"unknown end with words", []string{delta(`{"content":"a"}`), ends("whim")}, "text a\nstop max_tokens\n", ""},
		{"unknown end of a call that was cut off", []string{delta(`{"content":"a"}`),
			delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{\"a\":"}}]}`), ends("model_length")}, "text a\nstop max_tokens\n", ""},
		{"an end of nothing but reasoning", []string{delta(`{"reasoning":"h"}`), ends("model_context_window_exceeded")}, "thinks h\nthought h||{\"field\":\"reasoning\"}\nstop max_tokens\n", ""},
		{"nothing said", []string{ends("stop")}, "stop end\n", ""},

		{"no finish reason", []string{delta(`{"content":"a"}`)}, "text a\n", "openai: stream: the reply broke off"},
		{"nothing", nil, "", "openai: stream: the reply broke off"},
		{"usage, no finish reason", []string{usage}, told, "openai: stream: the reply broke off"},
		{"unknown end without words", []string{ends("whim")}, "", `openai: stream: the reply says nothing and stopped for an unknown reason "whim"`},
		{"ended by the server", []string{delta(`{"content":"a"}`), ends("error")}, "text a\n", `openai: server: the server ended the reply with "error"`},
		{"no resources", []string{ends("insufficient_system_resource")}, "", `openai: overloaded: the server ended the reply with "insufficient_system_resource"`},
		{"call without a name", []string{delta(`{"tool_calls":[{"index":0,"id":"1","function":{"arguments":"{}"}}]}`), ends("tool_calls")}, "", "openai: stream: a tool call without a name"},
		{"error", []string{delta(`{"content":"a"}`), `{"error":{"message":"slow down","code":429}}`}, "text a\n", "openai: rate_limit (429): slow down"},
		{"too many calls", []string{delta(`{"tool_calls":[` + strings.Repeat(`{"id":"1","function":{"name":"t"}},{"id":"2","function":{"name":"t"}},`, 512) + `{"id":"1","function":{"name":"t"}}]}`)}, "", "openai: too_large: the reply calls more than 1024 tools"},
		{"too many pieces of reasoning", []string{details, details, ends("stop")}, "", "openai: too_large: the reply has more than 262144 pieces of reasoning"},
		{"error beside the usage", []string{delta(`{"content":"a"}`), `{"error":{"message":"gone","code":502},"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"cost":0.5}}`},
			"text a\n" + `usage {"input_tokens":9,"output_tokens":5,"cache_read_tokens":0,"cache_write_tokens":0} cost 500000000` + "\n", "openai: server (502): gone"},
		{"the window, in words only", []string{`{"error":{"message":"Trying to keep the first 9 tokens when context the overflows."}}`}, "", "openai: context: Trying to keep the first 9 tokens when context the overflows."},
		{"error as text", []string{`{"error":"out of memory"}`}, "", "openai: server: out of memory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := stream(t, events(tt.lines...))
			got, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q"))
			if got != tt.want {
				t.Errorf("parts:\n%swant:\n%s", got, tt.want)
			}
			var e *model.Error
			if tt.err == "" && err != nil || tt.err != "" && (!errors.As(err, &e) || e.Error() != tt.err) {
				t.Errorf("error = %v, want %s", err, tt.err)
			}
		})
	}
}

// TestNameless: a reply with a call that has no name is not asked for again, in either API: it is paid,
// and the next one has none either.
func TestNameless(t *testing.T) {
	call := delta(`{"tool_calls":[{"index":0,"id":"1","function":{"arguments":"{}"}}]}`)
	chat, _ := stream(t, events(call, ends("tool_calls")))
	item, _ := respond(t, "http://127.0.0.1:1/v1/", named(`{"type":"response.output_item.done","item":{"type":"function_call","call_id":"c"}}`))
	for _, s := range []model.Stream{chat, item} {
		asked := 0
		retried := model.Retry(func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] { asked++; return s(ctx, r) },
			model.RetryOptions{Base: 1})
		if _, err := modeltest.Read(t, t.Context(), retried, modeltest.Ask("q")); asked != 1 || err == nil {
			t.Errorf("asked %d times, error %v", asked, err)
		}
	}
}

// TestEnds: servers have words of their own for how a reply ended. One that they do not call complete
// does not count as that.
func TestEnds(t *testing.T) {
	for want, words := range map[string]string{
		"stop end\n":        "stop, eos, eos_token, end_turn, stop_sequence, STOP, COMPLETE",
		"stop max_tokens\n": "length, max_tokens, MAX_TOKENS, model_length, model_context_window_exceeded, null, whim",
		"stop refusal\n":    "content_filter, sensitive, SAFETY, refusal, content_filter: PROHIBITED_CONTENT, RECITATION",
		"server":            "error, network_error, function_call_filter: MALFORMED_FUNCTION_CALL",
	} {
		for _, word := range strings.Split(words, ", ") {
			s, _ := stream(t, events(delta(`{"content":"a"}`), ends(word)))
			got, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q"))
			if e, ok := errors.AsType[*model.Error](err); ok && e.Temporary() {
				got += string(e.Kind)
			}
			if got != "text a\n"+want {
				t.Errorf("%s: reply %q, error %v, want %q", word, got, err, want)
			}
		}
	}
	for _, word := range []string{"tool_calls", "function_call", "tool_use", "tool-calls"} {
		s, _ := stream(t, events(delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":"{}"}}]}`), ends(word)))
		if got, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q")); got != "call 1 t {}\nstop tool_use\n" || err != nil {
			t.Errorf("%s: reply %q, error %v", word, got, err)
		}
	}
}

// TestWindowCostsNothing: a request that does not fit into the window was rejected, also where the
// server says so in a stream. So nothing of the reply is stored, and the thread can be shortened.
func TestWindowCostsNothing(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"Trying to keep the first 9 tokens when context the overflows."}}`: "",
		`{"error":{"message":"out of memory"}}`:                                                 "usage {\"input_tokens\":6,\"output_tokens\":0,\"cache_read_tokens\":0,\"cache_write_tokens\":0}\n",
	} {
		s, _ := stream(t, events(body))
		if got, err := modeltest.Read(t, t.Context(), model.Count(s), modeltest.Ask("q")); got != want || err == nil {
			t.Errorf("%s: parts %q, error %v, want %q", body, got, err, want)
		}
	}
}

// TestUnreadable: lines that are no events.
func TestUnreadable(t *testing.T) {
	for _, body := range []string{
		"data: {\"choices\"\n\n", "data: [1]\n\n", "data: nonsense\n\n", "event: x\n\n", "", "\x00", strings.Repeat("x", 2<<20),
		"data: " + ends("stop"), // no blank line at the end
		"data: [DONE]\n\n",
	} {
		s, _ := stream(t, body)
		_, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q"))
		if _, ok := errors.AsType[*model.Error](err); !ok {
			t.Errorf("%.80q: error = %v, want an *Error", body, err)
		}
	}
}

// TestUniqueIDs: a server that counts its calls anew in each reply does not repeat an id.
func TestUniqueIDs(t *testing.T) {
	s, _ := stream(t, events(delta(`{"tool_calls":[{"index":0,"id":"call_0","function":{"name":"t","arguments":"{}"}}]}`), ends("tool_calls")))
	r := modeltest.Ask("q")
	r.Messages = append(r.Messages,
		model.Message{Role: model.Assistant, Content: []model.Content{{Call: &model.Call{ID: "call_0", Name: "t", Arguments: []byte("{}")}}}},
		model.Message{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{ID: "call_0", Name: "t"}}}})
	got, err := modeltest.Read(t, t.Context(), s, r)
	if want := "call ours t {}\nstop tool_use\n"; got != want || err != nil {
		t.Errorf("parts = %s, %v, want %s", got, err, want)
	}
}

func TestParams(t *testing.T) {
	const vendor, other = "https://api.openai.com/v1/", "http://127.0.0.1:1/v1/"
	temperature := 0.5
	tools := []model.Tool{{Name: "t", Description: "d", Schema: json.RawMessage(`{"type":"object"}`)}}
	const toolsJSON = `"tools":[{"type":"function","function":{"name":"t","description":"d","parameters":{"type":"object"}}}]`
	const usageVendor = `"service_tier":"default","stream_options":{"include_usage":true,"include_obfuscation":false}`
	const usageOther = `"stream_options":{"include_usage":true}`
	tests := []struct {
		name, url, model string
		r                model.Request
		want             string // of the body, without messages, model and stream
	}{
		{"vendor", vendor, "gpt-5", model.Request{MaxTokens: 9, Temperature: &temperature}, `{"max_completion_tokens":9,"temperature":0.5,` + usageVendor + `}`},
		{"vendor in a region", "https://eu.api.openai.com/v1/", "gpt-5", model.Request{MaxTokens: 9}, `{"max_completion_tokens":9,` + usageVendor + `}`},
		{"profile", vendor, "gpt-5", model.Request{Profile: "agent/a", System: []model.Section{{Text: "p"}, {Text: "other"}}}, `{"prompt_cache_key":"jp-1323e5237c914e1289ac8a4e",` + usageVendor + `}`},
		{"profile elsewhere", other, "gpt-5", model.Request{Profile: "agent/a"}, `{` + usageOther + `}`},
		{"reasoning behind a proxy", other, "gpt-5", model.Request{MaxTokens: 9}, `{"max_completion_tokens":9,` + usageOther + `}`},
		{"other", other, "x", model.Request{MaxTokens: 9000}, `{"max_tokens":5000,` + usageOther + `}`},
		{"schema", other, "x", model.Request{Schema: json.RawMessage(`{"type":"object"}`)},
			`{"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}},` + usageOther + `}`},
		{"schema and tools", other, "x", model.Request{Tools: tools, Schema: json.RawMessage(`{"type":"object"}`)}, `{` + toolsJSON + `,` + usageOther + `}`},
		{"schema and tools, vendor", vendor, "gpt-5", model.Request{Tools: tools, Schema: json.RawMessage(`{"type":"object"}`)},
			`{"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}},` + toolsJSON + `,` + usageVendor + `}`},
		{"schema of a list, vendor", vendor, "gpt-5", model.Request{Schema: json.RawMessage(`{"type":"array"}`)}, `{` + usageVendor + `}`},
		{"schema, too old", vendor, "gpt-4-turbo", model.Request{Schema: json.RawMessage(`{"type":"object"}`)}, `{` + usageVendor + `}`},
		{"no calls", other, "x", model.Request{ToolChoice: "none", Tools: tools}, `{"tool_choice":"none",` + toolsJSON + `,` + usageOther + `}`},
		{"no calls of nothing", other, "x", model.Request{ToolChoice: "none"}, `{` + usageOther + `}`},
		{"effort", vendor, "gpt-6-sol", model.Request{Reasoning: "high"}, `{"reasoning_effort":"high",` + usageVendor + `}`},
		{"effort and tools", vendor, "gpt-5.2", model.Request{Reasoning: "high", Tools: tools}, `{"reasoning_effort":"high",` + toolsJSON + `,` + usageVendor + `}`},
		{"tools, effort unsaid", vendor, "gpt-6-sol", model.Request{Tools: tools}, `{"reasoning_effort":"none",` + toolsJSON + `,` + usageVendor + `}`},
		{"tools, effort unsaid, 5.4", vendor, "gpt-5.4", model.Request{Tools: tools}, `{` + toolsJSON + `,` + usageVendor + `}`},
		{"brief", vendor, "gpt-5", model.Request{Brief: true, MaxTokens: 9}, `{"max_completion_tokens":9,"reasoning_effort":"low",` + usageVendor + `}`},
		{"brief elsewhere", other, "gpt-5", model.Request{Brief: true, Reasoning: "high"}, `{"reasoning_effort":"high",` + usageOther + `}`},
		{"tools elsewhere", other, "gpt-6-sol", model.Request{Tools: tools, Reasoning: "low"}, `{"reasoning_effort":"low",` + toolsJSON + `,` + usageOther + `}`},
	}
	for _, tt := range tests {
		s, tr := at(t, tt.url, "")
		tt.r.Model, tt.r.Messages = tt.model, modeltest.Ask("q").Messages
		_, _ = modeltest.Read(t, t.Context(), s, tt.r) // nothing comes back
		var got, want map[string]any
		if err := json.Unmarshal(tr.Sent, &got); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		for _, key := range []string{"messages", "model", "stream"} {
			delete(got, key)
		}
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			text, _ := json.Marshal(got)
			t.Errorf("%s: sent %s, want %s", tt.name, text, tt.want)
		}
	}
	for _, name := range []string{"gpt-5.4", "gpt-5.5-2026-04-23", "gpt-5.6-luna", "gpt-6.1-sol"} {
		s, tr := at(t, vendor, "")
		r := modeltest.Ask("q")
		r.Model, r.Tools, r.Reasoning = name, tools, "low"
		_, err := modeltest.Read(t, t.Context(), s, r)
		if want := "openai: bad_request: " + name + " does not reason while it has tools over chat completions"; err == nil || err.Error() != want || tr.Sent != nil {
			t.Errorf("%s: error = %v, sent %s, want %s", name, err, tr.Sent, want)
		}
	}
}

// TestMemoryGoesBack: what a server wants to see again it sees, and nobody else does.
func TestMemoryGoesBack(t *testing.T) {
	assistant := func(field, provider string) model.Message {
		return model.Message{Role: model.Assistant, Content: []model.Content{
			{Reasoning: &model.Reasoning{Text: "hm", Opaque: json.RawMessage(`{"field":"` + field + `","details":[{"a":1}],"calls":{"` + field + `":{"g":1}}}`), Provider: provider}},
			{Text: "a"}, {Text: "b"},
			{Call: &model.Call{ID: field, Name: "t", Arguments: []byte("{}")}},
		}}
	}
	result := func(id string) model.Message {
		return model.Message{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{ID: id, Name: "t", Text: "r"}}}}
	}
	s, tr := stream(t, "")
	r := modeltest.Ask("q")
	r.Messages = append(r.Messages, assistant("earlier", "openai"), result("earlier"), r.Messages[0],
		assistant("reasoning", "openai"), result("reasoning"), assistant("other", "elsewhere"), result("other"))
	_, _ = modeltest.Read(t, t.Context(), s, r) // nothing comes back
	var sent struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(tr.Sent, &sent); err != nil {
		t.Fatal(err)
	}
	call := func(id, extra string) string {
		return `"tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"t","arguments":"{}"}` + extra + `}]`
	}
	for i, want := range map[int]string{
		1: `{"role":"assistant","content":"ab",` + call("earlier", `,"extra_content":{"g":1}`) + `}`,
		4: `{"role":"assistant","content":"ab","reasoning":"hm","reasoning_details":[{"a":1}],` + call("reasoning", `,"extra_content":{"g":1}`) + `}`,
		6: `{"role":"assistant","content":"ab",` + call("other", "") + `}`,
	} {
		var got, wanted any
		if err := json.Unmarshal(sent.Messages[i], &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, wanted) {
			t.Errorf("message %d = %s, want %s", i, sent.Messages[i], want)
		}
	}
}

// TestIDsGoBack: the model that has given a call an id which others refuse gets it back, and no
// other does.
func TestIDsGoBack(t *testing.T) {
	for named, want := range map[string]string{
		`{"named":"x"}`: "functions.t:0", `{"named":"y"}`: "call_9348c0a19557918d3d5f676e", `{}`: "call_9348c0a19557918d3d5f676e",
	} {
		s, tr := stream(t, "")
		r := modeltest.Ask("q")
		r.Messages = append(r.Messages,
			model.Message{Role: model.Assistant, Content: []model.Content{
				{Reasoning: &model.Reasoning{Opaque: json.RawMessage(named), Provider: "openai"}},
				{Call: &model.Call{ID: "functions.t:0", Name: "t", Arguments: []byte("{}")}},
			}},
			model.Message{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{ID: "functions.t:0", Name: "t", Text: "r"}}}})
		_, _ = modeltest.Read(t, t.Context(), s, r) // nothing comes back
		for _, id := range []string{`"id":"` + want + `"`, `"tool_call_id":"` + want + `"`} {
			if !strings.Contains(string(tr.Sent), id) {
				t.Errorf("after %s: sent %s, want %s", named, tr.Sent, id)
			}
		}
	}
}

// TestSignaturesGoBack: the model that has signed a call gets the signature back, and no other
// does.
func TestSignaturesGoBack(t *testing.T) {
	for named, want := range map[string]bool{"x": true, "y": false} {
		s, tr := stream(t, "")
		r := modeltest.Ask("q")
		r.Messages = append(r.Messages,
			model.Message{Role: model.Assistant, Content: []model.Content{
				{Reasoning: &model.Reasoning{Opaque: json.RawMessage(`{"signed":{"call_1":"s/+="},"named":"` + named + `"}`), Provider: "openai"}},
				{Call: &model.Call{ID: "call_1", Name: "t", Arguments: []byte("{}")}},
			}},
			model.Message{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{ID: "call_1", Name: "t", Text: "r"}}}})
		_, _ = modeltest.Read(t, t.Context(), s, r) // nothing comes back
		if got := strings.Contains(string(tr.Sent), `"provider_specific_fields":{"thought_signature":"s/+="}`); got != want {
			t.Errorf("signed by %s: sent %s", named, tr.Sent)
		}
	}
}

// TestMutatedEvents: an event with any value replaced or missing is read or refused, and the reply
// is parts and one end.
func TestMutatedEvents(t *testing.T) {
	lines := []string{
		`{"id":"i","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"a","refusal":"r","reasoning_content":"h","reasoning":"h","reasoning_details":[{"a":1}]},"finish_reason":null}]}`,
		delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"h"}]},{"type":"text","text":"a"}]}`),
		delta(`{"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"t","arguments":"{\"a\""},"extra_content":{"g":1}},{"index":1,"id":"2","function":{"name":"u"}}]}`),
		delta(`{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`),
		ends("tool_calls"),
		`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":2}}}`,
		`{"error":{"message":"x","type":"y","code":500}}`,
	}
	n, failed := 0, 0
	for i, line := range lines {
		for mutant := range modeltest.Mutations(line) {
			mutated := slices.Clone(lines[:6])
			if i < 6 {
				mutated[i] = mutant
			} else {
				mutated[5] = mutant
			}
			s, _ := stream(t, events(mutated...))
			n++
			if _, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q")); err != nil {
				failed++
			}
		}
	}
	if n < 500 || failed == 0 || failed == n {
		t.Errorf("%d of %d mutants failed", failed, n)
	}
}

// FuzzStream: whatever a server sends, a reply is parts and one end.
func FuzzStream(f *testing.F) {
	f.Add(events(delta(`{"content":"a"}`), ends("stop"), `{"choices":[],"usage":{"prompt_tokens":9}}`))
	f.Add(events(delta(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"t","arguments":{"a":1}},"extra_content":{}}]}`), ends("length")))
	f.Add(events(delta(`{"reasoning":"h","reasoning_details":[{"a":1}]}`), `{"error":{"message":"x","code":529}}`))
	f.Add("data: {\"choices\":[{\"index\":-1}],\"usage\":{\"prompt_tokens\":1e300}}\r\n\r\n: x\ndata:[DONE]\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		s, _ := stream(t, body)
		_, _ = modeltest.Read(t, t.Context(), s, modeltest.Ask("q")) // it checks the reply
	})
}
