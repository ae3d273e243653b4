package archive

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"jp/convstore"
	"jp/convstore/internal/test/storetest"
)

// TestImportLargest: whatever a server said that its calls used, the store keeps it, and what it keeps
// comes in again. Sums end at the largest number.
func TestImportLargest(t *testing.T) {
	most := fmt.Sprint(int64(math.MaxInt64))
	call := func(n int) string {
		return fmt.Sprintf(`{"event":{"id":"m%d","time":"2026-01-02T03:04:05Z","body":{"type":"model_call","model":"m","usage":{"input_tokens":%s,"output_tokens":%[2]s,`+
			`"cache_read_tokens":0,"cache_write_tokens":0},"cost_nano":%[2]s}}}`+"\n", n, most)
	}
	dear := strings.NewReplacer(`"input_tokens":7`, `"input_tokens":`+most, `"cost_nano":3`, `"cost_nano":`+most).Replace(importDelegation)
	lines := importFile(importLine("5", "") + importEvents(1) + call(1) + call(2) +
		importLine("6", `,"parent_id":"jp-c5","link":"delegation","depth":1`) + dear + strings.Replace(dear, `"call":"c1"`, `"call":"c2"`, 1))
	s, done := memoryStore(t)
	defer done()
	importAll(t, s, lines, ImportOptions{})
	for _, id := range []convstore.ID{5, 6} {
		if c := storetest.Get(t, s.View, id); c.CostNano != nil && *c.CostNano < 0 || c.Usage.Input < 0 || c.Usage.Tokens() < 0 {
			t.Errorf("%s: %+v", id, c)
		}
	}
	other, end := memoryStore(t)
	defer end()
	out := exportLines(t, s)
	importAll(t, other, out, ImportOptions{})
	if got := exportLines(t, other); got != out {
		t.Errorf("exported again:\n%s\nwant\n%s", got, out)
	}
	importAll(t, other, out, ImportOptions{NewIDs: true})
}
