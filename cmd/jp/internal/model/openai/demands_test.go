package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
	modeltest "jp/cmd/jp/internal/test/model"
)

// asked is what the doubles of servers read of a request.
type asked struct {
	Messages []struct {
		Reasoning string                `json:"reasoning_content"`
		CallID    string                `json:"tool_call_id"`
		Calls     []struct{ ID string } `json:"tool_calls"`
	}
	Format json.RawMessage `json:"response_format"`
}

// refusing returns a provider at a server that answers "ok", or with a status of 400 and what refuse
// says of the request, and the number of the requests it has got.
func refusing(t *testing.T, refuse func(asked) string) (model.Stream, *int) {
	t.Helper()
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var a asked
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			t.Error(err)
		}
		n++
		if why := refuse(a); why != "" {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": why, "type": "invalid_request_error"}})
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events(delta(`{"content":"ok"}`), ends("stop")))
	}))
	t.Cleanup(server.Close)
	s, err := New(model.Config{Name: "deep", BaseURL: server.URL + "/v1/", Client: model.NewClient(), MaxBytes: 1 << 20, Model: model.Info{ID: "deep/x", Name: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	return s, &n
}

// answered returns what is wrong with a reply that is not "ok"; "" = nothing.
func answered(t *testing.T, s model.Stream, r model.Request) string {
	t.Helper()
	if got, err := modeltest.Read(t, t.Context(), s, r); err != nil || got != "text ok\nstop end\n" {
		return fmt.Sprintf("reply %q, error %v", got, err)
	}
	return ""
}

// thread returns a request after a turn with one call and its answer. The provider of the message
// with the call has thought aloud in field.
func thread(provider, field string) model.Request {
	r := modeltest.Ask("q")
	thought := func(text string) model.Content {
		return model.Content{Reasoning: &model.Reasoning{Text: text, Opaque: json.RawMessage(`{"field":"` + field + `"}`), Provider: provider}}
	}
	r.Messages = append(r.Messages,
		model.Message{Role: model.Assistant, Content: []model.Content{thought("call it"),
			{Call: &model.Call{ID: "call_00_dRyxp", Name: "t", Arguments: []byte("{}")}}}},
		model.Message{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{ID: "call_00_dRyxp", Name: "t", Text: "r"}}}},
		model.Message{Role: model.Assistant, Content: []model.Content{thought("say it"), {Text: "a"}}},
		r.Messages[0])
	return r
}

// TestThoughtsOfEarlierTurns: DeepSeek and Kimi refuse a thread in which a message with calls comes
// without its thinking, and DeepSeek's old models a thread in which one without calls comes with it.
func TestThoughtsOfEarlierTurns(t *testing.T) {
	s, n := refusing(t, func(a asked) string {
		if called, said := a.Messages[1], a.Messages[3]; called.Reasoning != "call it" || said.Reasoning != "" {
			return fmt.Sprintf("thinking %q of the call, %q of the answer", called.Reasoning, said.Reasoning)
		}
		return ""
	})
	if wrong := answered(t, s, thread("deep", "reasoning_content")); wrong != "" || *n != 1 {
		t.Errorf("%s, %d requests, want 1", wrong, *n)
	}
}

// TestThoughtsOfOthers: a server that wants thinking for what another one has called, or where it
// has named it otherwise, gets something in its place. It says so once.
func TestThoughtsOfOthers(t *testing.T) {
	for _, why := range []string{
		"The `reasoning_content` in the thinking mode must be passed back to the API.",
		"thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
	} {
		for provider, want := range map[string]string{"elsewhere": " ", "deep": " "} {
			s, n := refusing(t, func(a asked) string {
				if a.Messages[1].Reasoning != want {
					return why
				}
				return ""
			})
			for i := range 2 {
				if wrong := answered(t, s, thread(provider, "reasoning")); wrong != "" || *n != i+2 {
					t.Errorf("%s: call %d of %s: %s, %d requests", why, i+1, provider, wrong, *n)
				}
			}
		}
	}
	s, n := refusing(t, func(asked) string { return "property 'reasoning_content' is unsupported" })
	if wrong := answered(t, s, thread("elsewhere", "reasoning")); !strings.Contains(wrong, "is unsupported") || *n != 1 {
		t.Errorf("%s, %d requests, want 1", wrong, *n)
	}
}

// TestSchemaInThePrompt: a server that cannot hold a reply to a schema is asked without one, whose
// text is in the prompt anyhow. It says so once.
func TestSchemaInThePrompt(t *testing.T) {
	for _, why := range []string{
		"This response_format type is unavailable now",
		"This model does not support response format `json_schema`. See supported models",
		"structured outputs are not supported by this model",
	} {
		s, n := refusing(t, func(a asked) string {
			if a.Format != nil {
				return why
			}
			return ""
		})
		r := modeltest.Ask("q")
		for i := range 2 {
			r.Schema = json.RawMessage(`{"type":"object"}`)
			if wrong := answered(t, s, r); wrong != "" || *n != i+2 {
				t.Errorf("%s: call %d: %s, %d requests", why, i+1, wrong, *n)
			}
		}
	}
	s, n := refusing(t, func(asked) string { return "response_format: no such model" })
	if wrong := answered(t, s, modeltest.Ask("q")); !strings.Contains(wrong, "no such model") || *n != 1 {
		t.Errorf("without a schema: %s, %d requests, want 1", wrong, *n)
	}
}

// TestNineCharacters: Mistral takes ids of calls of nine letters and digits, and those of a call and
// its result are the same.
func TestNineCharacters(t *testing.T) {
	nine := regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
	s, n := refusing(t, func(a asked) string {
		call, result := a.Messages[1].Calls[0].ID, a.Messages[2].CallID
		if id := call; !nine.MatchString(id) {
			return "Tool call id was " + id + " but must be a-z, A-Z, 0-9, with a length of 9."
		}
		if call != result || a.Messages[3].Calls[0].ID != "aB3dE6gH9" {
			return "Unexpected tool call id " + result + " in tool results"
		}
		return ""
	})
	r := thread("elsewhere", "")
	r.Messages = append(r.Messages[:3:3],
		model.Message{Role: model.Assistant, Content: []model.Content{{Call: &model.Call{ID: "aB3dE6gH9", Name: "t", Arguments: []byte("{}")}}}},
		model.Message{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{ID: "aB3dE6gH9", Name: "t", Text: "r"}}}})
	for i := range 2 {
		if wrong := answered(t, s, r); wrong != "" || *n != i+2 {
			t.Errorf("call %d: %s, %d requests", i+1, wrong, *n)
		}
	}
}
