package openai

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
	modeltest "jp/cmd/jp/internal/test/model"
)

// TestNesting: arguments are complete where they are JSON, and not before.
func TestNesting(t *testing.T) {
	for _, text := range []string{`{}`, `null`, ` {"a":[1,{"b":"}\"]\\"}]} `, `{"\\":"\\\\\""}`, `{"a":"[{"}`} {
		for size := 1; size <= len(text); size++ {
			var n nesting
			for at := 0; at < len(text); at += size {
				end := min(at+size, len(text))
				n.take(text[at:end])
				if want := json.Valid([]byte(text[:end])); n.complete() != want && text != "null" {
					t.Errorf("%s by %d: complete = %t, want %t", text[:end], size, n.complete(), want)
				}
			}
			if !n.complete() {
				t.Errorf("%s by %d: is not complete", text, size)
			}
		}
	}
}

// TestNamedAgain: a server that gives no ids, and the name in each piece of a call, takes no longer
// than the bytes of its reply. (It took an hour.)
func TestNamedAgain(t *testing.T) {
	again := delta(`{"tool_calls":[` + strings.Repeat(`{"function":{"name":"t"}},`, 50_000) + `{"function":{"arguments":""}}]}`)
	begins := delta(`{"tool_calls":[{"function":{"name":"t","arguments":"{\"a\":\"` + strings.Repeat("x", 4<<20) + `"}}]}`)
	body := events(begins, again, again, again, again, again, delta(`{"tool_calls":[{"function":{"arguments":"\"}"}}]}`),
		delta(`{"tool_calls":[{"function":{"name":"u","arguments":"{}"}}]}`), ends("tool_calls"))
	s, err := New(model.Config{Name: "openai", BaseURL: "http://127.0.0.1:1/v1/", Client: &http.Client{Transport: &modeltest.Replay{Body: body}}, MaxBytes: 32 << 20})
	if err != nil {
		t.Fatal(err)
	}
	got, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q"))
	want := `call ours t {"a":"` + strings.Repeat("x", 4<<20) + "\"}\ncall ours u {}\nstop tool_use\n"
	if got != want || err != nil {
		t.Errorf("parts = %.100q, of %d bytes, %v, want %d", got, len(got), err, len(want))
	}
}

// TestManyCalls: calls are counted as they come, and not at the end of their event.
func TestManyCalls(t *testing.T) {
	s, _ := stream(t, events(delta(`{"tool_calls":[`+strings.Repeat(`{"id":"a","function":{"name":"t"}},{"id":"b","function":{"name":"t"}},`, 20_000)+`{}]}`)))
	_, err := modeltest.Read(t, t.Context(), s, modeltest.Ask("q"))
	if e := (*model.Error)(nil); !errors.As(err, &e) || e.Kind != model.KindTooLarge {
		t.Errorf("error = %v, want %s", err, model.KindTooLarge)
	}
}
