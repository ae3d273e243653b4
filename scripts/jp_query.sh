#!/usr/bin/env bash
# Delegates to a sub-agent, or asks one again. Copy it with jp_query.toml to .jp/tools.
set -euo pipefail

CONVERSATION_ID="{{context.conversation_id}}"
CONFIG="{{tool.arguments.config}}"
QUERY="{{tool.arguments.query}}"
SUB_ID="{{tool.arguments.id}}"

# Only assistant.model may be overridden. jp refuses everything else too.
OVERRIDES=()
{{#for override in tool.arguments.overrides}}
if [[ "{{override}}" != assistant.model=* ]]; then
  echo "Error: only assistant.model overrides are allowed, got: {{override}}"
  exit 1
fi
OVERRIDES+=(--cfg "{{override}}")
{{/for}}

if [ "$SUB_ID" = "new" ]; then
  # The one rule decides here. The profile is the whole config: NONE drops all else.
  SUB_ID=$(jp conversation fork "$CONVERSATION_ID" \
    --last=0 \
    --cfg=NONE \
    --cfg="$CONFIG" \
    ${OVERRIDES[@]+"${OVERRIDES[@]}"} \
    --hidden)
fi

# Status 7 is a partial answer, handed in at a limit.
STATUS=0
OUTPUT=$(jp query \
  --non-interactive \
  --id="$SUB_ID" \
  --no-activate \
  --root-id="$CONVERSATION_ID" \
  ${OVERRIDES[@]+"${OVERRIDES[@]}"} \
  -- "$QUERY") || STATUS=$?

case "$STATUS" in
  0) echo "<response conversation_id=\"${SUB_ID}\" status=\"ok\">" ;;
  7) echo "<response conversation_id=\"${SUB_ID}\" status=\"partial\">" ;;
  *) exit "$STATUS" ;;
esac
printf "%s\n" "$OUTPUT"
echo "</response>"
