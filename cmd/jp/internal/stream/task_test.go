package stream

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

func TestReadTask(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Task
		err  string
	}{
		{`{"query":"a"}`, Task{Query: "a"}, "<nil>"},
		{` {"query":"a","schema":{"type":"object"},"context":{"tool":"docs","query":"b"}} ` + "\n",
			Task{Query: "a", Schema: json.RawMessage(`{"type":"object"}`), Context: &Context{Tool: "docs", Query: "b"}}, "<nil>"},
		{``, Task{}, "task: empty; want one JSON object"},
		{`{`, Task{}, "task: it ends in the middle"},
		{`"a"`, Task{}, "task: want an object, not a string"},
		{`{"query":"a"}{}`, Task{Query: "a"}, "task: column 14: more than one value"},
		{`{"query":"a","system":"b"}`, Task{Query: "a"}, `task: unknown field "system"`},
		{`{"query":"a","query":"b"}`, Task{Query: "b"}, "task: query: is there twice"},
		{`{"schema":{}}`, Task{Schema: json.RawMessage(`{}`)}, "task: query: is empty"},
		{`{"query":"a","context":{}}`, Task{Query: "a", Context: &Context{}}, "task: context: query: is empty"},
	} {
		got, err := ReadTask([]byte(tt.in))
		if !reflect.DeepEqual(got, tt.want) || fmt.Sprint(err) != tt.err {
			t.Errorf("ReadTask(%s) = %+v, %v, want %+v, %s", tt.in, got, err, tt.want, tt.err)
		}
	}
}

// FuzzReadTask: a task that is read is written and read again as the same.
func FuzzReadTask(f *testing.F) {
	f.Add([]byte(`{"query":"a","schema":{"type":"object"},"context":{"tool":"docs","query":"b"}}`))
	f.Add([]byte(`{"query":"\u0000<","schema":null}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		task, err := ReadTask(in)
		if err != nil {
			return
		}
		b, err := json.Marshal(task)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadTask(b)
		if err != nil || again.Query != task.Query || !reflect.DeepEqual(again.Context, task.Context) {
			t.Errorf("ReadTask(%q) = %+v, written %q and read %+v, %v", in, task, b, again, err)
		}
	})
}
