// Tells when cron patterns match, by the library that BullMQ uses: a JSON list of questions on stdin, one of answers on stdout.
//
//   {"pattern", "tz", "after", "count"} -> the next matches in ms, or null if the library refuses the pattern
import { text } from 'node:stream/consumers';
import { CronExpressionParser } from 'cron-parser';

function answer({ pattern, tz, after, count }) {
  try {
    const matches = CronExpressionParser.parse(pattern, { tz, currentDate: new Date(after) });
    return Array.from({ length: count }, () => matches.next().getTime());
  } catch {
    return null;
  }
}

const questions = JSON.parse(await text(process.stdin));
process.stdout.write(JSON.stringify(questions.map(answer)));
