package openai

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// TestTallyCovers: in whichever of the ways known of servers a use is counted, and however often,
// it is charged no less than it is billed.
func TestTallyCovers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := func(name string) int64 { return rapid.Int64Range(0, 3000).Draw(rt, name) }
		i, o, r, w, thought := n("input"), n("output"), n("read"), n("written"), n("thought")
		ways := map[string]string{
			"OpenAI":        fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d}}`, i+r+w, o+thought, i+r+w+o+thought, r, w),
			"Responses":     fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d}}`, i+r+w, o+thought, r, w),
			"LiteLLM":       fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_creation_tokens":%[4]d},"cache_creation_input_tokens":%[4]d}`, i+r+w, o+thought, r, w),
			"LiteLLM 2025":  fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%[4]d},"cache_creation_input_tokens":%d,"cache_read_input_tokens":%[4]d}`, i+r, o+thought, i+r+o+thought, r, w),
			"of Bedrock":    fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%[4]d},"cache_creation_input_tokens":%d,"cache_read_input_tokens":%[4]d}`, i+r, o+thought, i+r+w+o+thought, r, w),
			"Alibaba":       fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_creation_input_tokens":%d}}`, i+r+w, o+thought, r, w),
			"New API":       fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cached_creation_tokens":%d}}`, i+r+w, o+thought, r, w),
			"thought apart": fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d}}`, i+r+w, o, i+r+w+o+thought, r, w),
			"cache apart":   fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d}}`, i, o+thought, i+r+w+o+thought, r, w),
		}
		way := rapid.SampledFrom([]string{"OpenAI", "Responses", "LiteLLM", "LiteLLM 2025", "of Bedrock", "Alibaba", "New API", "thought apart", "cache apart"}).Draw(rt, "way")
		var told tally
		for range rapid.IntRange(1, 3).Draw(rt, "times") {
			var u usage
			if err := json.Unmarshal([]byte(ways[way]), &u); err != nil {
				rt.Fatal(err)
			}
			told.add(&u)
		}
		price := model.PerMillion(2, 10, 0.2, 2.5)
		got, billed := *told.used().Usage, convstore.Usage{Input: i, Output: o + thought, CacheRead: r, CacheWrite: w}
		if price.Cost(got) < price.Cost(billed) || way != "cache apart" && got != billed {
			rt.Fatalf("%s: %+v is charged as %+v", ways[way], billed, got)
		}
	})
}
