import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.zip.CRC32;

/**
 * Short processes from several threads at once, by ProcessBuilder, while another thread makes garbage:
 * what each wrote has to come back whole, with its status. Arguments: threads, processes of each.
 */
public class Processes {
    static final AtomicLong sum = new AtomicLong(), bytes = new AtomicLong();
    static final AtomicInteger wrong = new AtomicInteger();
    static volatile boolean over;

    /** What it writes, and the status that it ends with, are known beforehand. */
    static void one(int thread, int number) throws Exception {
        String word = "thread " + thread + " process " + number + " ";
        // Some write more than a pipe holds, but not the shell, whose loops are slow.
        int lines = number % 4 == 3 && number % 3 != 0 ? 3000 : 1 + number % 7, status = number % 5;
        StringBuilder expected = new StringBuilder();
        for (int line = 0; line < lines; line++) {
            expected.append(word).append(line).append('\n');
        }
        ProcessBuilder builder = switch (number % 3) {
            // A shell; a program that says what it finds in its environment; one that gives its input back.
            case 0 -> new ProcessBuilder("/bin/sh", "-c",
                "n=0; while [ $n -lt " + lines + " ]; do echo \"$0$n\"; n=$((n + 1)); done; exit " + status, word);
            case 1 -> new ProcessBuilder("/bin/sh", "-c", "printf %s \"$WORD\"; exit " + status);
            default -> new ProcessBuilder("/bin/cat");
        };
        builder.redirectErrorStream(true);
        if (number % 3 == 1) {
            builder.environment().put("WORD", expected.substring(0, Math.min(expected.length(), 90000)));
            expected.setLength(Math.min(expected.length(), 90000));
        }
        Process process = builder.start();
        if (number % 3 == 2) {
            status = 0;
            byte[] input = expected.toString().getBytes();
            Thread writer = new Thread(() -> {
                try (var out = process.getOutputStream()) {
                    out.write(input);
                } catch (Exception error) {
                    wrong.incrementAndGet();
                }
            });
            writer.start();
        }
        byte[] output = process.getInputStream().readAllBytes();
        int ended = process.waitFor();
        if (ended != status || !new String(output).equals(expected.toString())) {
            wrong.incrementAndGet();
            System.out.println("thread " + thread + ", process " + number + ": status " + ended + ", " + output.length
                               + " bytes, not " + status + ", " + expected.length());
        }
        CRC32 crc = new CRC32();
        crc.update(output);
        sum.addAndGet(crc.getValue());
        bytes.addAndGet(output.length);
    }

    public static void main(String[] arguments) throws Exception {
        int threads = Integer.parseInt(arguments[0]), each = Integer.parseInt(arguments[1]);
        Thread garbage = new Thread(() -> {
            Map<Integer, byte[]> kept = new HashMap<>();
            Random random = new Random(1);
            for (int n = 0; !over; n++) {
                byte[] block = new byte[1 + random.nextInt(20000)];
                Arrays.fill(block, (byte) n);
                byte[] old = kept.put(random.nextInt(500), block);
                // Memory that a child of vfork has written to, or that was lost, shows here.
                if (old != null && old[0] != old[old.length - 1]) {
                    System.out.println("memory is damaged");
                    wrong.incrementAndGet();
                }
                if (n % 20000 == 0) {
                    System.gc();
                }
            }
        });
        garbage.start();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<?>> parts = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            final int mine = thread;
            parts.add(pool.submit(() -> {
                for (int number = 0; number < each; number++) {
                    one(mine, number);
                }
                return null;
            }));
        }
        for (Future<?> part : parts) {
            part.get();
        }
        pool.shutdown();
        over = true;
        garbage.join();
        System.out.println(threads * each + " processes, " + bytes + " bytes, sum " + sum + ", wrong " + wrong);
        System.exit(wrong.get() == 0 ? 0 : 1);
    }
}
