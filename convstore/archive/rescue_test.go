package archive

import (
	"encoding/json"
	"testing"

	"jp/convstore"
)

// TestTwoRecords: where a stale page has a record again that another page has, one of them is lost.
func TestTwoRecords(t *testing.T) {
	lost := 0
	r := rescue{lost: func(error) { lost++ }, heads: map[convstore.ID]*Exported{}, last: map[convstore.ID]uint64{}}
	for _, record := range []string{`{"title":"new"}`, `{"title":"old"}`} {
		r.head(salvaged{ID: 5, Record: json.RawMessage(record)})
	}
	if title := r.heads[5].Title; lost != 1 || title != "new" {
		t.Errorf("%d lost, the title is %q", lost, title)
	}
}
