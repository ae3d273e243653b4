package convstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"jp/convstore/internal/stored"
)

// codecTable holds every kind of body beside its stored form. Both ways must hold exactly.
var codecTable = []struct {
	body Body
	json string
}{
	{TurnStart{}, `{"type":"turn_start"}`},
	{UserMessage{Text: "a <b> & \"c\""}, `{"type":"chat_request","content":"a <b> & \"c\""}`},
	{UserMessage{Text: "x", Attachments: []Attachment{{Source: "a.txt", MediaType: "text/plain", Text: "t"}, {Source: "b.png", Data: []byte{1, 2}}}, Schema: json.RawMessage(`{"type":"object"}`)},
		`{"type":"chat_request","content":"x","attachments":[{"source":"a.txt","media_type":"text/plain","text":"t"},{"source":"b.png","data":"AQI="}],"schema":{"type":"object"}}`},
	{AssistantMessage{Text: "yes\n"}, `{"type":"chat_response","message":"yes\n"}`},
	{AssistantMessage{}, `{"type":"chat_response","message":""}`},
	{Reasoning{Text: "hm", Signature: "s=", Opaque: json.RawMessage(`[1,{"a":2}]`), Provider: "p"}, `{"type":"chat_response","reasoning":"hm","signature":"s=","opaque":[1,{"a":2}],"provider":"p"}`},
	{Structured{Data: json.RawMessage(`{"n":1.50}`)}, `{"type":"chat_response","data":{"n":1.50}}`},
	{Structured{Data: json.RawMessage(`null`)}, `{"type":"chat_response","data":null}`},
	{ToolCall{ID: "1", Name: "n", Source: "builtin", Arguments: json.RawMessage(`{"a":"<"}`)}, `{"type":"tool_call_request","id":"1","name":"n","source":"builtin","arguments":{"a":"<"}}`},
	{ToolCall{ID: "1", Name: "n", Arguments: json.RawMessage(`{"a":`)}, `{"type":"tool_call_request","id":"1","name":"n","arguments_text":"{\"a\":"}`},
	{ToolCall{ID: "1", Name: "n"}, `{"type":"tool_call_request","id":"1","name":"n"}`},
	{ToolResult{ID: "1", Text: "r", IsError: true}, `{"type":"tool_call_response","id":"1","content":"r","is_error":true}`},
	{ModelCall{Model: "m", Usage: Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}, CostNano: ptr(5), Stop: "end", Duration: time.Second},
		`{"type":"model_call","model":"m","usage":{"input_tokens":1,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4},"cost_nano":5,"stop":"end","duration_ns":1000000000}`},
	{ModelCall{Model: "m"}, `{"type":"model_call","model":"m","usage":{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0},"cost_nano":null}`},
	{TurnEnd{State: StatePartial, Reason: "tokens"}, `{"type":"turn_end","state":"partial","reason":"tokens"}`},
	{ConfigDelta{Delta: json.RawMessage(`{"a":1}`), Reset: "none"}, `{"type":"config_delta","delta":{"a":1},"reset":"none"}`},
	{Inquiry{ID: "1.q", Tool: "t", Text: "sure?", Kind: "select", Options: []string{"y", "n"}, Default: json.RawMessage(`"y"`)},
		`{"type":"inquiry_request","id":"1.q","source":{"source":"tool","name":"t"},"question":{"text":"sure?","answer_type":{"type":"select","options":["y","n"]},"default":"y"}}`},
	{InquiryAnswer{ID: "1.q", Answer: json.RawMessage(`true`)}, `{"type":"inquiry_response","id":"1.q","answer":true}`},
	{Note{Kind: "k", Text: "t"}, `{"type":"note","kind":"k","text":"t"}`},
	{Compaction{Reason: "window", Results: []string{"1"}, Summary: "s", Model: "m", Covered: 4, Kept: 2, Conversations: []CompactedConversation{{ID: "jp-c1", Profile: "p", Status: "ok", Title: "t"}}, Before: 9, After: 5},
		`{"type":"context_compaction","reason":"window","results":["1"],"summary":"s","model":"m","covered":4,"kept":2,"conversations":[{"id":"jp-c1","profile":"p","status":"ok","title":"t"}],"tokens_before":9,"tokens_after":5}`},
	{opaque(`{"type":"compaction","from_turn":1, "x" : [ ]}`), `{"type":"compaction","from_turn":1, "x" : [ ]}`},
	// Known names, but not what this version expects below them.
	{opaque(`{"type":"turn_end","state":7}`), `{"type":"turn_end","state":7}`},
	{opaque(`{"type":"chat_response"}`), `{"type":"chat_response"}`},
	{opaque(`{"type":"chat_response","message":"a","data":1}`), `{"type":"chat_response","message":"a","data":1}`},
}

func ptr(n int64) *int64 { return &n }

func opaque(raw string) Opaque {
	var t struct{ Type string }
	_ = json.Unmarshal([]byte(raw), &t)
	return Opaque{Name: t.Type, Raw: json.RawMessage(raw)}
}

func TestBodyCodec(t *testing.T) {
	kinds := map[stored.Kind]bool{}
	for _, test := range codecTable {
		got, err := encodeBody(test.body)
		if err != nil || string(got) != test.json {
			t.Errorf("encode(%#v) = %s, %v, want %s", test.body, got, err, test.json)
		}
		body, err := DecodeBody([]byte(test.json))
		if err != nil || !reflect.DeepEqual(body, test.body) {
			t.Errorf("decode(%s) = %#v, %v, want %#v", test.json, body, err, test.body)
		}
		kinds[KindOf(test.body)] = true
	}
	for k := stored.KindOpaque; k <= stored.KindCompaction; k++ {
		if !kinds[k] {
			t.Errorf("the table has no body of kind %d", k)
		}
	}
}

// TestDeepBody: what is nested deeper than it can be read back is not stored, and nothing else of
// the conversation suffers.
func TestDeepBody(t *testing.T) {
	s := openStore(t)
	l := mustLock(t, s, mustCreate(t, s, New{}).ID)
	for _, of := range []func(json.RawMessage) Body{
		func(v json.RawMessage) Body { return UserMessage{Schema: v} },
		func(v json.RawMessage) Body { return Reasoning{Opaque: v} },
		func(v json.RawMessage) Body { return Structured{Data: v} },
		func(v json.RawMessage) Body { return ToolCall{ID: "1", Name: "n", Arguments: v} },
		func(v json.RawMessage) Body { return ConfigDelta{Delta: v} },
		func(v json.RawMessage) Body { return InquiryAnswer{Answer: v} },
	} {
		for levels, fits := range map[int]bool{9_999: true, 10_000: false} {
			body := of(json.RawMessage(strings.Repeat("[", levels) + strings.Repeat("]", levels)))
			err := l.Append(t.Context(), Event{Body: body})
			if (err == nil) != fits {
				t.Errorf("Append of %T with %d levels = %v", body, levels, err)
			}
		}
	}
	for _, err := range s.Events(t.Context(), l.ID(), Range{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestStoredDecode reads records: also those whose kind and body do not say the same, of which the
// body is right.
func TestStoredDecode(t *testing.T) {
	raws := []string{
		`{"type":"chat_response","message":"a","message":"b"}`, `{"type":"chat_response","message":"a","data":1}`, `{"type":"chat_response","message":7}`,
		`{"type":"chat_response","message":"a","type":"note"}`, `{"type":"note","TYPE":"chat_request","content":"x"}`, `{ "type":"chat_request","content":"x"}`,
	}
	for _, test := range codecTable {
		raws = append(raws, test.json)
	}
	quick := 0
	for _, raw := range raws {
		want, err := DecodeBody([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		for k := stored.KindOpaque; k <= stored.KindCompaction; k++ {
			s := stored.Event{Kind: k, Body: []byte(raw)}
			if begin := kinds[k].begin; begin != "" && strings.HasPrefix(raw, begin) {
				if quick++; k != KindOf(want) {
					continue // the encoder writes no such record
				}
			}
			if got, err := BodyOf(s); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("kind %d: decode(%s) = %#v, %v, want %#v", k, raw, got, err, want)
			}
		}
	}
	if _, err := BodyOf(stored.Event{Kind: stored.KindUser, Body: []byte(`{"type":"chat_request","content":`)}); err == nil || quick < 9 {
		t.Errorf("half a body: error %v; %d were read at once", err, quick)
	}
}

func TestBodyDecodeErrors(t *testing.T) {
	for _, raw := range []string{"", "x", "[]", "null", `"turn_start"`, "{}", `{"type":7}`, `{"type":null}`, `{"type":"note"`, `{"type":"note"}}`} {
		if body, err := DecodeBody([]byte(raw)); err == nil {
			t.Errorf("decode(%q) = %#v, want an error", raw, body)
		}
	}
}

func TestBodyEncodeErrors(t *testing.T) {
	for _, body := range []Body{
		nil, Structured{Data: json.RawMessage("{")}, ConfigDelta{Delta: json.RawMessage("x")}, Opaque{Name: "a", Raw: json.RawMessage(`{"type":"b"}`)},
		Opaque{Name: "a"}, foreignBody{}, Compaction{Results: make([]string, maxValues+1)},
	} {
		if _, err := EncodeEvent(Event{ID: "x", Time: storeEpoch, Body: body}); err == nil {
			t.Errorf("encode(%.1000v): no error", body)
		}
	}
	for _, e := range []Event{
		{ID: "", Time: storeEpoch}, {ID: strings.Repeat("x", stored.MaxID+1), Time: storeEpoch}, {ID: "\xff", Time: storeEpoch},
		{ID: "x", Time: time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)}, {ID: "x", Time: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		e.Body = TurnStart{}
		if _, err := EncodeEvent(e); err == nil {
			t.Errorf("encode(%+v): no error", e)
		}
	}
}

// TestCrowdedBody decodes bodies of many values: none becomes structures that take many times its
// bytes, and each keeps them.
func TestCrowdedBody(t *testing.T) {
	many := strings.Repeat("{},", maxValues/2) + "{}"
	for raw, want := range map[string]stored.Kind{
		`{"type":"chat_request","content":"x","attachments":[` + many + `]}`:                stored.KindOpaque,
		`{"type":"context_compaction","conversations":[` + many + `]}`:                      stored.KindOpaque,
		`{"type":"chat_request","content":"[` + strings.Repeat("{,", maxValues) + `"}`:      stored.KindUser,
		`{"type":"tool_call_request","id":"1","name":"n","arguments":{"a":[` + many + `]}}`: stored.KindToolCall,
	} {
		body, err := DecodeBody([]byte(raw))
		if err != nil || KindOf(body) != want {
			t.Fatalf("decode(%.60s) = %T, %v, want kind %d", raw, body, err, want)
		}
		rec, err := EncodeEvent(Event{ID: "x", Time: storeEpoch, Body: Opaque{Name: TypeOf(body), Raw: json.RawMessage(raw)}})
		if err != nil || string(rec.Body) != raw || rec.Kind != want {
			t.Errorf("encode(%.60s): kind %d, %d bytes, %v", raw, rec.Kind, len(rec.Body), err)
		}
	}
}

type foreignBody struct{ Note }

// TestEventKeepsWhatItDoesNotKnow stores an event with members that this version does not have,
// under a type that it does.
func TestEventKeepsWhatItDoesNotKnow(t *testing.T) {
	s := openStore(t)
	c := mustCreate(t, s, New{})
	l := mustLock(t, s, c.ID)
	const in = `{"event_id":"e1","turn":9,"timestamp":"2026-03-01T12:00:00Z","author":{"name":"x"},"type":"chat_request","content":"hi \u0026 bye","extra":[1, 2]}`
	var e Event
	if err := json.Unmarshal([]byte(in), &e); err != nil {
		t.Fatal(err)
	}
	if want := (UserMessage{Text: "hi & bye"}); !reflect.DeepEqual(e.Body, want) {
		t.Fatalf("body %#v, want %#v", e.Body, want)
	}
	if err := l.Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	was := mustEvents(t, s.View, c.ID, Range{})[0]
	out, err := was.MarshalJSON()
	const want = `{"event_id":"e1","seq":1,"turn":0,"timestamp":"2026-03-01T12:00:00Z","author":{"name":"x"},"type":"chat_request","content":"hi \u0026 bye","extra":[1, 2]}`
	if err != nil || string(out) != want {
		t.Errorf("MarshalJSON = %s, %v, want %s", out, err, want)
	}
	fork, err := s.Fork(t.Context(), c.ID, Fork{})
	if err != nil {
		t.Fatal(err)
	}
	copied := mustEvents(t, s.View, fork.ID, Range{})[0]
	if copied.ID == was.ID || !bytes.Equal(copied.raw, was.raw) {
		t.Errorf("forked as %s under %s", copied.raw, copied.ID)
	}
	// Who changes the body gets what the body says.
	was.Body = UserMessage{Text: "other"}
	if out, err := json.Marshal(was); err != nil || bytes.Contains(out, []byte("extra")) || !bytes.Contains(out, []byte("other")) {
		t.Errorf("with another body: %s, %v", out, err)
	}
}

func TestEventIDs(t *testing.T) {
	seen := map[string]bool{}
	last := ""
	for range 1000 {
		id := NewEventID()
		if len(id) != 26 || seen[id] || id[:9] < last {
			t.Fatalf("NewEventID() = %q after %q", id, last)
		}
		seen[id], last = true, id[:9]
	}
}

func TestAppendAgain(t *testing.T) {
	s := openStore(t)
	c := mustCreate(t, s, New{})
	l := mustLock(t, s, c.ID)
	events := []Event{{ID: "a", Body: TurnStart{}}, {ID: "b", Body: ModelCall{Usage: Usage{Input: 2}}}}
	if err := l.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	before := mustRead(t, s.Path())
	again := []Event{{ID: "a", Body: TurnStart{}}, {ID: "b", Body: ModelCall{Usage: Usage{Input: 2}}}}
	if err := l.Append(t.Context(), again...); err != nil {
		t.Fatal(err)
	}
	if again[0].Seq != 1 || again[1].Seq != 2 || again[1].Turn != 1 {
		t.Errorf("appended again: %+v", again)
	}
	if !bytes.Equal(before, mustRead(t, s.Path())) {
		t.Error("appending again changed the file")
	}
	// With something new among them, only that is added; twice in one call counts once.
	mixed := []Event{{ID: "b", Body: ModelCall{}}, {ID: "c", Body: TurnStart{}}, {ID: "c", Body: TurnStart{}}}
	if err := l.Append(t.Context(), mixed...); err != nil {
		t.Fatal(err)
	}
	if got := mustGet(t, s.View, c.ID); got.Events != 3 || got.Turns != 2 || got.Usage.Input != 2 {
		t.Errorf("after all: %+v", got)
	}
	if err := l.Append(t.Context(), Event{ID: "d", Body: Note{}}, Event{ID: "e", Body: Structured{Data: json.RawMessage("{")}}); err == nil {
		t.Error("appended a body that is no JSON")
	}
	if got := mustGet(t, s.View, c.ID).Events; got != 3 {
		t.Errorf("%d events after a refused append, want 3", got)
	}
	_ = l.Close()
	if err := l.Append(t.Context(), Event{Body: Note{}}); !errors.Is(err, ErrClosed) {
		t.Errorf("Append to a closed log: %v, want ErrClosed", err)
	}
}

func TestConfigDelta(t *testing.T) {
	s := openStore(t)
	c := mustCreate(t, s, New{Config: Config{JSON: []byte(" {\"opaque\": \n1}\n"), Tools: []string{"a"}}})
	l := mustLock(t, s, c.ID)
	for _, test := range []struct {
		resolved, want Config
	}{
		{Config{}, Config{JSON: []byte(" {\"opaque\": \n1}\n"), Tools: []string{"a"}}},
		{Config{JSON: []byte("[ 0]"), Tools: []string{"b", "c"}}, Config{JSON: []byte("[ 0]"), Tools: []string{"b", "c"}}},
		{Config{JSON: []byte("{}")}, Config{JSON: []byte("{}")}},
	} {
		mustAppend(t, l, ConfigDelta{Delta: json.RawMessage(`{}`), Resolved: test.resolved})
		got, err := s.Config(t.Context(), l.ID())
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("Config = %+v, %v, want %+v", got, err, test.want)
		}
	}
}

func TestStateWorse(t *testing.T) {
	states := append([]State{""}, States()...)
	states = append(states, "of a later version")
	for i, a := range states {
		for j, b := range states {
			if got, want := a.Worse(b), states[max(i, j)]; got != want {
				t.Errorf("%q.Worse(%q) = %q, want %q", a, b, got, want)
			}
		}
	}
}

func FuzzDecodeBody(f *testing.F) {
	for _, test := range codecTable {
		f.Add([]byte(test.json))
	}
	f.Add([]byte(`{"TYPE":"note","Kind":1}`))
	f.Add([]byte(`{"type":"chat_response","data":"\ud800","message":null}`))
	f.Add([]byte(`{"type":"tool_call_request","arguments_text":"{}"}`))
	f.Add([]byte("{\"type\":\"note\",\"text\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		body, err := DecodeBody(raw)
		if err != nil {
			return
		}
		e := Event{ID: "x", Time: storeEpoch, Body: body, raw: raw}
		s, err := EncodeEvent(e)
		if err != nil {
			t.Fatalf("%q decodes to %#v, which does not encode: %v", raw, body, err)
		}
		if !bytes.Equal(bytes.TrimSpace(s.Body), bytes.TrimSpace(raw)) {
			t.Fatalf("%q is stored as %q", raw, s.Body)
		}
		// What we would write ourselves is a fixed point.
		canonical, err := encodeBody(body)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeBody(canonical)
		if err != nil {
			t.Fatalf("%q -> %q: %v", raw, canonical, err)
		}
		if c, err := encodeBody(again); err != nil || !bytes.Equal(c, canonical) {
			t.Fatalf("%q -> %q -> %q, %v", raw, canonical, c, err)
		}
	})
}

func FuzzParseStored(f *testing.F) {
	for _, test := range codecTable {
		s, err := EncodeEvent(Event{ID: "x", Time: storeEpoch, Body: test.body})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s.Append(nil))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		s, err := stored.Parse(v)
		if err != nil {
			return
		}
		if v[2]&^stored.FlagLoose == 0 && !bytes.Equal(s.Append(nil), v) {
			t.Fatalf("%x parses to %+v, which is stored as %x", v, s, s.Append(nil))
		}
		_, _ = eventOf(s, 1)
	})
}

func FuzzEventJSON(f *testing.F) {
	f.Add([]byte(`{"event_id":"a","seq":1,"turn":0,"timestamp":"2026-03-01T12:00:00Z","type":"note","kind":"","text":""}`))
	f.Add([]byte(`{"type":"x","type":"note"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var e Event
		if json.Unmarshal(in, &e) != nil {
			return
		}
		out, err := json.Marshal(e)
		if err != nil {
			t.Skip(err) // a year that JSON has no form for
		}
		var again Event
		if err := json.Unmarshal(out, &again); err != nil {
			t.Fatalf("%q -> %q: %v", in, out, err)
		}
		if again.ID != e.ID || again.Seq != e.Seq || again.Turn != e.Turn || !again.Time.Equal(e.Time) || TypeOf(again.Body) != TypeOf(e.Body) {
			t.Fatalf("%q: %+v -> %+v", in, e, again)
		}
	})
}
